import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { startEmbedded } from '../../src/database/embedded.ts'
import { Listener, type ListenerOptions, type ListenerState } from '../../src/database/listener.ts'
import { startProxy } from '../support/proxy.ts'
import { ownDatabase } from '../support/server.ts'

const database = ownDatabase()
const db = () => database.db

/** A listener that has been started, and all states that it had. */
function startListener(options: ListenerOptions): Listener & { readonly states: ListenerState[] } {
  const listener = new Listener(options)
  const states = [listener.state]
  listener.on('state', (state) => states.push(state))
  listener.start()
  return Object.assign(listener, { states })
}

async function become(listener: Listener, state: ListenerState): Promise<void> {
  await expect.poll(() => listener.state, { interval: 5 }).toBe(state)
}

const notify = (payload: string) => db().query("select pg_notify('fencepost', $1)", [payload])

/** Whose sessions are meant: other tests have listeners on the same server. */
const OURS = `application_name = 'fencepost listener' and datname = current_database()`

/** The sessions of our listeners. */
const sessions = () => db().query(`select pid from pg_stat_activity where ${OURS}`)

describe('a listener', () => {
  it('becomes ready, and hears what is for workers', async () => {
    await using listener = startListener({ url: database.url })
    await become(listener, 'ready')
    expect(listener.states).toEqual(['connecting', 'ready'])
    const wake = once(listener, 'wake')
    const cancel = once(listener, 'cancel')
    for (const payload of ['', 'no json', '"text"', '[]', '{"wake":"x"}', '{"cancel":[1]}']) {
      await notify(payload)
    }
    await notify('{"worker":12,"cancel":[1,2]}')
    await notify('{"wake":[7]}')
    expect(await cancel).toEqual([12, [1, 2]])
    expect(await wake).toEqual([[7]])
  })

  it('wakes a sleeper when work is enqueued, and is left in peace while awake', async () => {
    await using listener = startListener({ url: database.url })
    await become(listener, 'ready')
    const woken: (readonly number[])[] = []
    listener.on('wake', (groups) => woken.push(groups))
    await db().query("select fencepost.enqueue('nap', '{}')")
    const [row] = await db().query<{ groups: number[] }>(
      "select fencepost.wake_groups(array['nap']) as groups",
    )
    const groups = row?.groups ?? []
    await listener.session.query('select fencepost.sleep_lock($1)', [groups])
    const wake = once(listener, 'wake')
    await db().query("select fencepost.enqueue('nap', '{}')")
    await wake
    await listener.session.query('select fencepost.sleep_unlock($1)', [groups])
    await db().query("select fencepost.enqueue('nap', '{}')")
    const last = once(listener, 'wake')
    await notify('{"wake":[99]}')
    await last
    expect(woken).toEqual([groups, [99]])
  })

  it.each(['sleeping', 'listening'])(
    'whose %s connection is killed is degraded until both are back',
    async (which) => {
      await using listener = startListener({ url: database.url })
      await become(listener, 'ready')
      const { epoch } = listener.session
      await listener.session.query('select pg_advisory_lock_shared(1, 2)')
      await expect.poll(sessions).toHaveLength(2)
      const [sleeper, subscriber] = (
        await db().query<{ pid: number }>(
          `select pid from pg_stat_activity left join pg_locks using (pid)
         where ${OURS} group by pid
         order by bool_or(locktype = 'advisory') desc nulls last`,
        )
      ).map(({ pid }) => pid)
      const degraded = once(listener, 'state')
      const victim = which === 'sleeping' ? sleeper : subscriber
      await db().query('select pg_terminate_backend($1, 5000)', [victim])
      expect(await degraded).toEqual(['degraded', expect.stringContaining(which)])
      await become(listener, 'ready')
      expect(listener.session.epoch).toBe(which === 'sleeping' ? epoch + 1 : epoch)
      const wake = once(listener, 'wake')
      await notify('{"wake":[1]}')
      expect(await wake).toEqual([[1]])
    },
  )

  it('survives twenty kills of both', async () => {
    await using listener = startListener({ url: database.url })
    for (let round = 0; round < 20; round++) {
      await become(listener, 'ready')
      const before = listener.states.length
      await db().query(`select pg_terminate_backend(pid) from pg_stat_activity where ${OURS}`)
      // Sometimes it is hit again while it mends.
      if (round % 3 > 0) await expect.poll(() => listener.states.length).toBeGreaterThan(before)
    }
    await become(listener, 'ready')
    const wake = once(listener, 'wake')
    await notify('{"wake":[2]}')
    await wake
    await expect.poll(sessions).toHaveLength(2)
  })

  it('notices when the network swallows its connections', async () => {
    await using proxy = await startProxy(database.url)
    const url = `${proxy.url}?connect_timeout=1`
    await using listener = startListener({ url, checkEvery: 400 })
    await become(listener, 'ready')
    proxy.blackHole = true
    await become(listener, 'degraded')
    await sleep(500)
    proxy.blackHole = false
    await become(listener, 'ready')
    // It may be degraded again for a moment: a starved server takes longer than it is given here.
    let woken = 0
    listener.on('wake', () => woken++)
    await expect.poll(() => notify('{"wake":[3]}').then(() => woken)).toBeGreaterThan(0)
  })

  it('that cannot listen is off', async () => {
    await using listener = startListener({ url: database.url, listen: false })
    expect(listener.state).toBe('off')
    await sleep(50)
    expect(listener.states).toEqual(['off'])
  })

  it('ends its sessions, from whatever state', async () => {
    const ready = startListener({ url: database.url })
    await become(ready, 'ready')
    const connecting = startListener({ url: database.url })
    const dead = new URL(database.url)
    dead.port = '1'
    const hopeless = startListener({ url: dead.href })
    await sleep(200)
    expect(hopeless.state).toBe('connecting')
    await Promise.all([ready, connecting, hopeless].map((each) => each.close()))
    await expect.poll(sessions).toEqual([])
  })
})

describe('the session', () => {
  it('says at once when it is not connected, and drops what misses its deadline', async () => {
    await using listener = new Listener({ url: database.url })
    await expect(listener.session.query('select 1')).rejects.toMatchObject({
      code: 'NOT_CONNECTED',
      outcome: 'not_sent',
    })
    listener.start()
    await become(listener, 'ready')
    const { epoch } = listener.session
    const failed = listener.session.query('select pg_sleep(60)', [], { timeout: 100 })
    await expect(failed).rejects.toMatchObject({ name: 'QueryTimeoutError' })
    expect(listener.state).toBe('degraded')
    await become(listener, 'ready')
    expect(listener.session.epoch).toBe(epoch + 1)
    expect(await listener.session.query('select $1::int8[] as ids', [[2 ** 40]])).toEqual([
      { ids: [2 ** 40] },
    ])
    await expect(listener.session.query('oops')).rejects.toMatchObject({ code: '42601' })
    expect(listener.state).toBe('ready')
  })
})

describe('a server that comes and goes', () => {
  it('is found again: when it starts late, and after an outage longer than drivers wait', async () => {
    const dataDir = mkdtempSync(path.join(tmpdir(), 'fencepost-listener-'))
    const server = await startEmbedded({ dataDir, settings: { fsync: 'off' } })
    try {
      const { url } = server
      await server.stop()
      await using listener = startListener({ url })
      await sleep(300)
      expect(listener.state).toBe('connecting')
      await server.restart()
      await become(listener, 'ready')
      await server.kill()
      await become(listener, 'degraded')
      await sleep(3500) // pg-listen's own retryTimeout is 3 s
      expect(listener.state).toBe('degraded')
      await server.restart()
      await become(listener, 'ready')
      const wake = once(listener, 'wake')
      await listener.session.query("select pg_notify('fencepost', '{\"wake\":[4]}')")
      await wake
      expect(listener.states).toEqual(['connecting', 'ready', 'degraded', 'ready'])
    } finally {
      await server.stop()
      for (const each of [server.home, dataDir]) rmSync(each, { recursive: true, force: true })
    }
  })
})
