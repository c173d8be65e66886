import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  connect,
  type Database,
  isConnectionError,
  type Outcome,
} from '../../src/database/database.ts'
import { type EmbeddedServer, startEmbedded } from '../../src/database/embedded.ts'
import { within } from '../../src/worker/within.ts'
import { startProxy } from '../support/proxy.ts'
import { ownDatabase } from '../support/server.ts'

// Vitest fails a run in which a rejection or an exception goes unheard: that alone proves that none does.

/** Longer than any of them has to wait on a busy machine, unless it is said. */
const TIMEOUT = 15_000
/** How late a deadline may be, in ms. */
const LATE = 200

interface Tally {
  ok: number
  lost: Record<Outcome, number>
  /** How many had not settled soon after their deadline, as timers of this process see it. */
  late: number
  /** Those that failed with anything but a connection error. */
  odd: unknown[]
}

/** Settles when each of many queries has. */
async function load(db: Database, count: number, text = 'select 1 as one'): Promise<Tally> {
  const tally: Tally = { ok: 0, lost: { unknown: 0, not_sent: 0 }, late: 0, odd: [] }
  await Promise.all(
    Array.from({ length: count }, async () => {
      const settled = db.query(text, [], { timeout: TIMEOUT }).then(
        () => tally.ok++,
        (error) => {
          if (isConnectionError(error)) tally.lost[error.outcome]++
          else tally.odd.push(error)
        },
      )
      if (!(await within(settled, TIMEOUT + LATE))) tally.late++
      await settled
    }),
  )
  return tally
}

describe('sessions that are terminated', () => {
  const database = ownDatabase({ migrated: false })

  it.each([1, 2, 8])('15 times under 200 queries each, with max %i', async (max) => {
    const rebuilt: Error[] = []
    await using victim = connect({
      url: database.url,
      max,
      applicationName: 'victim',
      onRebuild: (reason) => rebuilt.push(reason),
    })
    await victim.query('select 1')
    let lost = 0
    for (let round = 0; round < 15; round++) {
      // Some die idle, some at work.
      const busy = round % 2 === 0 ? load(victim, 100, 'select pg_sleep(0.002)') : undefined
      await database.db.query(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'victim'",
      )
      const tally = await load(victim, 100)
      const all = [tally, await (busy ?? load(victim, 100))]
      for (const each of all) {
        expect(each.odd).toEqual([])
        expect(each.late).toBe(0)
        expect(each.ok + each.lost.unknown + each.lost.not_sent).toBe(100)
        lost += each.lost.unknown + each.lost.not_sent
      }
      expect(await victim.query('select 1 as one')).toEqual([{ one: 1 }])
    }
    expect(rebuilt.length).toBeGreaterThanOrEqual(15)
    // What was terminated fails; nothing else does.
    expect(lost).toBeLessThanOrEqual(rebuilt.length)
  })
})

describe('a server', () => {
  let server: EmbeddedServer
  let dataDir: string
  beforeAll(async () => {
    dataDir = mkdtempSync(path.join(tmpdir(), 'fencepost-loss-'))
    const settings = { fsync: 'off', max_connections: 20, superuser_reserved_connections: 1 }
    server = await startEmbedded({ dataDir, settings })
  })
  afterAll(async () => {
    await server.stop()
    for (const each of [server.home, dataDir]) rmSync(each, { recursive: true, force: true })
  })

  it('that is killed and started again under load loses no query to silence', async () => {
    await using db = connect({ url: server.url, max: 6 })
    await db.query('create table if not exists written (id int primary key)')
    const DEADLINE = 2_000
    let stop = false
    let next = 0
    const acknowledged: number[] = []
    const failed = new Map<number, Outcome>()
    const writers = Array.from({ length: 12 }, async () => {
      while (!stop) {
        const id = next++
        const write = db.query('insert into written values ($1)', [id], { timeout: DEADLINE })
        expect(
          await within(
            write.catch(() => {}),
            DEADLINE + LATE,
          ),
        ).toBe(true)
        try {
          await write
          acknowledged.push(id)
        } catch (error) {
          if (!isConnectionError(error)) throw error
          failed.set(id, error.outcome)
          await sleep(10)
        }
      }
    })
    for (let round = 0; round < 3; round++) {
      const before = acknowledged.length
      await expect.poll(() => acknowledged.length, { interval: 5 }).toBeGreaterThan(before + 40)
      await server.kill()
      await sleep(100)
      await server.restart()
    }
    await expect.poll(() => db.query('select 1 as one').catch(String)).toEqual([{ one: 1 }])
    stop = true
    await Promise.all(writers)
    const rows = await db.query<{ id: number }>('select id from written')
    const stored = new Set(rows.map(({ id }) => id))
    expect(acknowledged.filter((id) => !stored.has(id))).toEqual([])
    const notSent = [...failed].filter(([, outcome]) => outcome === 'not_sent')
    expect(notSent.filter(([id]) => stored.has(id))).toEqual([])
    expect(acknowledged.length).toBeGreaterThan(100)
    expect(failed.size).toBeGreaterThan(0)
  })

  it('without a connection left says so, and the pool recovers', async () => {
    await using holder = connect({ url: server.url, max: 1 })
    await holder.query('select pg_advisory_lock(7)')
    // The greedy one takes them all, and then shares them among its own.
    await using greedy = connect({ url: server.url, max: 30 })
    const wait = 'select pg_advisory_lock_shared(7), pg_advisory_unlock_shared(7)'
    const waiting = Array.from({ length: 30 }, () => greedy.query(wait, [], { timeout: 60_000 }))
    // Whoever still gets in stays in, until the server is full.
    const crowd: Database[] = []
    const refusal = () => {
      const next = connect({ url: server.url, max: 1 })
      crowd.push(next)
      return next.query('select 1').catch((error) => error)
    }
    await expect.poll(refusal).toMatchObject({
      name: 'ConnectionLostError',
      code: '53300',
      outcome: 'not_sent',
      hint: expect.stringContaining('max_connections'),
    })
    await holder.query('select pg_advisory_unlock(7)')
    expect(await Promise.all(waiting)).toHaveLength(30)
    await greedy.close()
    const refused = crowd.pop()
    await Promise.all(crowd.map((each) => each.close()))
    await expect.poll(() => refused?.query('select 1 as one').catch(String)).toEqual([{ one: 1 }])
    await refused?.close()
  })

  describe('behind a network', () => {
    it('that is slow answers all the same', async () => {
      await using proxy = await startProxy(server.url)
      await using db = connect({ url: proxy.url, max: 4 })
      proxy.latency = 20
      expect(await load(db, 20)).toMatchObject({ ok: 20 })
    })

    it('that swallows everything: each query meets its deadline, and all is well afterwards', async () => {
      await using proxy = await startProxy(server.url)
      await using db = connect({ url: `${proxy.url}?connect_timeout=1`, max: 4 })
      await load(db, 20)
      proxy.blackHole = true
      const outcomes = new Set<Outcome>()
      // First on connections that stood, then on connections that are being opened.
      for (let wave = 0; wave < 3; wave++) {
        const settled = Promise.all(
          Array.from({ length: 12 }, () =>
            db.query('select 1', [], { timeout: 300 }).catch((error) => error),
          ),
        )
        expect(await within(settled, 300 + LATE)).toBe(true)
        for (const error of await settled) {
          expect(error).toMatchObject({ name: 'QueryTimeoutError' })
          outcomes.add(error.outcome)
        }
      }
      expect(outcomes).toEqual(new Set(['unknown', 'not_sent']))
      proxy.blackHole = false
      await expect.poll(() => db.query('select 1 as one').catch(String)).toEqual([{ one: 1 }])
      expect(await load(db, 100)).toMatchObject({ ok: 100 })
    })

    it('that swallowed the idle connections costs one deadline, not one for each', async () => {
      await using proxy = await startProxy(server.url)
      await using db = connect({ url: proxy.url, max: 4 })
      await load(db, 20, 'select pg_sleep(0.02)')
      proxy.blackHole = true
      const first = await db.query('select 1', [], { timeout: 200 }).catch((error) => error)
      proxy.blackHole = false
      expect(first).toMatchObject({ name: 'QueryTimeoutError', outcome: 'unknown' })
      expect(await db.query('select 1 as one')).toEqual([{ one: 1 }])
    })

    it('that resets connections: those under way fail, the next succeed', async () => {
      await using proxy = await startProxy(server.url)
      await using db = connect({ url: proxy.url, max: 4 })
      await using observer = connect({ url: server.url, max: 1 })
      const working = load(db, 4, 'select pg_sleep(60)')
      const busy = "select from pg_stat_activity where query like '%(60)' and state = 'active'"
      await expect.poll(() => observer.query(busy)).toHaveLength(4)
      proxy.reset()
      expect(await working).toMatchObject({ ok: 0, lost: { unknown: 4 }, odd: [] })
      expect(await load(db, 100)).toMatchObject({ ok: 100 })
    })

    it('that accepts and answers nothing: the connect timeout says so', async () => {
      await using proxy = await startProxy(server.url)
      proxy.blackHole = true
      await using db = connect({ url: `${proxy.url}?connect_timeout=1` })
      const error = await db.query('select 1', [], { timeout: 5000 }).catch((each) => each)
      expect(error).toMatchObject({ code: 'CONNECT_TIMEOUT', outcome: 'not_sent' })
    })

    it('whose far end is gone: an error at once', async () => {
      await using nowhere = await startProxy('postgresql://127.0.0.1:1/none')
      await using db = connect({ url: nowhere.url })
      const begun = load(db, 50)
      expect(await within(begun, 2_000)).toBe(true)
      expect(await begun).toMatchObject({ ok: 0, lost: { not_sent: 50 }, odd: [] })
    })
  })
})
