import { afterEach, describe, expect, it } from 'vitest'
import { json } from '../../../src/database/database.ts'
import { moveClock, restoreClock } from '../../support/clock.ts'
import {
  claim,
  claimOne,
  complete,
  enqueue,
  freshType,
  maintain,
  outcomes,
  started,
} from '../../support/engine.ts'
import { ownDatabase } from '../../support/server.ts'
import { Session } from '../../support/sessions.ts'
import { column, one, refused } from '../../support/sql.ts'

const database = ownDatabase()
const db = () => database.db
afterEach(() => restoreClock(db()))

const register = (name: string, rest = '') =>
  one<number>(db(), `select fencepost.register_worker($1${rest})`, [name])
const workerStatus = (id: number) =>
  one<string>(db(), 'select status::text from fencepost_private.worker where worker_id = $1', [id])
const heartbeat = (
  name: string,
  ids: number[] = [],
  tokens: number[] = [],
  id: number | null = null,
) =>
  db().query<{ job_id: number | null; directive: string }>(
    'select * from fencepost.heartbeat($1, $2, $3, $4)',
    [name, ids, tokens, id],
  )

describe('register_worker', () => {
  it('refuses types that are none', async () => {
    await refused(register('w', `, types => '{null}'`), 'JE003')
  })

  it('gives each incarnation a number of its own', async () => {
    const first = await register(
      'a',
      `, 'host', 1, array['x'], '10 s', 1, '{"version": "1"}', 'acme'`,
    )
    const other = await register('a', `, 'host', 2`)
    expect(await workerStatus(first)).toBe('active')
    const again = await register('a', `, 'host', 1`)
    expect(new Set([first, other, again]).size).toBe(3)
    expect([
      await workerStatus(first),
      await workerStatus(other),
      await workerStatus(again),
    ]).toEqual(['lost', 'active', 'active'])
    const [row] = await db().query('select * from fencepost_private.worker where worker_id = $1', [
      first,
    ])
    expect(row).toMatchObject({
      hostname: 'host',
      slot: 1,
      types: ['x'],
      ttl: '00:00:10',
      info: { version: '1' },
      tenant: 'acme',
    })
    const [event] = await db().query(
      `select data from fencepost_private.event where kind = 'worker.lost' and worker_id = $1`,
      [first],
    )
    expect(event?.data).toEqual({ worker: 'a', reason: 'registered again', successor: again })
  })

  it('takes the jobs of the one it replaces back at once', async () => {
    const type = freshType()
    await register('restarted')
    const job = await started(db(), type, {}, 'restarted')
    const second = await register('restarted')
    await maintain(db())
    expect(await outcomes(db(), job.job_id)).toEqual(['lease_expired'])
    const next = await claimOne(db(), type, 'restarted')
    expect(next).toMatchObject({ job_id: job.job_id, token: 2, attempt: 2 })
    await refused(complete(db(), job), 'JE001')
    expect(await workerStatus(second)).toBe('active')
  })

  it('leaves one present of twenty that register at once, and tells of each that was replaced', async () => {
    const sessions = await Promise.all(Array.from({ length: 20 }, () => Session.open(database.url)))
    const answers = await Promise.all(
      sessions.map((session) =>
        session.query<{ id: number }>(`select fencepost.register_worker('crowd') as id`),
      ),
    )
    const ids = answers.map((rows) => rows[0]?.id ?? 0)
    expect(new Set(ids).size).toBe(20)
    const states = await column<string>(
      db(),
      `select status::text from fencepost_private.worker where name = 'crowd'`,
    )
    expect(states.filter((each) => each === 'active')).toHaveLength(1)
    const told = await column(
      db(),
      `select worker_id from fencepost_private.event where kind = 'worker.lost' and worker_id = any ($1)`,
      [ids],
    )
    expect(told).toHaveLength(19)
    for (const session of sessions) await session[Symbol.asyncDispose]()
  })

  it.each([
    ['no name', `null`],
    ['an empty name', `''`],
    ['a name of 201 characters', `repeat('x', 201)`],
    ['a ttl that is too short', `'t', ttl => '0.5 s'`],
    ['a ttl that is too long', `'t', ttl => '25 hours'`],
    ['no ttl', `'t', ttl => null`],
  ])('refuses %s', async (_, args) => {
    await refused(db().query(`select fencepost.register_worker(${args})`), 'JE003')
  })

  it('refuses a protocol that it does not speak', async () => {
    await refused(register('future', ', protocol => 2'), 'JE011')
    await refused(register('nameless', ', protocol => null'), 'JE011')
  })
})

describe('heartbeat', () => {
  it('keeps a worker alive and names only what needs attention', async () => {
    const type = freshType()
    const id = await register('beat')
    for (let n = 0; n < 4; n++) await enqueue(db(), type, n === 3 ? { timeout: '5 s' } : {})
    const [kept, wanted, lost, slow] = (await claim(db(), type, 4, 'beat')).map(
      (job) => job.job_id,
    ) as [number, number, number, number]
    await one(db(), 'select fencepost.cancel($1)', [wanted])
    await one(db(), 'select fencepost.release($1, 1)', [lost])
    await moveClock(db(), '6 s')
    const rows = await heartbeat('beat', [kept, wanted, lost, slow], [1, 1, 1, 1], id)
    expect(rows.sort((x, y) => (x.job_id ?? 0) - (y.job_id ?? 0))).toEqual([
      { job_id: wanted, directive: 'cancel' },
      { job_id: lost, directive: 'lost' },
      { job_id: slow, directive: 'timeout' },
    ])
    expect(await heartbeat('beat', [kept], [1], id)).toEqual([])
    expect(await heartbeat('beat', [kept], [2], id)).toEqual([{ job_id: kept, directive: 'lost' }])
    expect(await heartbeat('beat', [], [], id)).toEqual([])
  })

  it('calls lost what another worker holds', async () => {
    const job = await started(db(), freshType(), {}, 'holder')
    const other = await register('other')
    expect(await heartbeat('other', [job.job_id], [job.token], other)).toEqual([
      { job_id: job.job_id, directive: 'lost' },
    ])
  })

  it('tells a worker to drain', async () => {
    const id = await register('tired')
    await db().query(
      `update fencepost_private.worker set status = 'draining' where worker_id = $1`,
      [id],
    )
    expect(await heartbeat('tired')).toEqual([{ job_id: null, directive: 'drain' }])
  })

  it('means the present worker of that name, also when a younger one has gone', async () => {
    const present = await register('twin', `, 'host-a'`)
    const gone = await register('twin', `, 'host-b'`)
    await one(db(), 'select fencepost.stop_worker($1)', [gone])
    expect(await heartbeat('twin')).toEqual([])
    await one(db(), 'select fencepost.stop_worker($1)', [present])
    const refusal = await refused(heartbeat('twin'), 'JE010')
    expect(refusal.message).toMatch(/twin is stopped/)
  })

  it('refuses a lost, stopped or unknown worker, by name and by number', async () => {
    const first = await register('old')
    await register('old')
    await refused(heartbeat('old', [], [], first), 'JE010')
    expect((await refused(heartbeat('nobody'), 'JE010')).message).toMatch(/nobody is unknown/)
    await refused(heartbeat('nobody', [], [], 9_999_999), 'JE010')
    const { message } = await refused(db().query('select fencepost.heartbeat(null)'), 'JE003')
    expect(message).toBe('a worker must be named')
  })

  it('refuses ids without tokens', async () => {
    await register('sloppy')
    await refused(heartbeat('sloppy', [1, 2], [1]), 'JE003')
  })
})

describe('stop_worker', () => {
  it('gives what the worker still holds back to others', async () => {
    const type = freshType()
    const id = await register('bye')
    const job = await started(db(), type, {}, 'bye')
    await one(db(), 'select fencepost.stop_worker($1)', [id])
    await one(db(), 'select fencepost.stop_worker($1)', [id])
    expect(await workerStatus(id)).toBe('stopped')
    await maintain(db())
    expect((await claimOne(db(), type, 'next')).job_id).toBe(job.job_id)
  })

  it('refuses an unknown worker', async () => {
    await refused(db().query('select fencepost.stop_worker(9999999)'), 'JE002')
    await refused(db().query('select fencepost.stop_worker(null)'), 'JE002')
  })
})

it('keeps JSON about a worker as it is', async () => {
  const id = await one<number>(db(), `select fencepost.register_worker('described', info => $1)`, [
    json({ pid: 7, odd: ['\u007f'] }),
  ])
  expect(
    await one(db(), 'select info from fencepost_private.worker where worker_id = $1', [id]),
  ).toEqual({ pid: 7, odd: ['\u007f'] })
})
