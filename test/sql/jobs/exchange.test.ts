import { afterEach, describe, expect, it } from 'vitest'
import { json } from '../../../src/database/database.ts'
import { moveClock, restoreClock } from '../../support/clock.ts'
import {
  enqueue,
  enqueueBatch,
  freshType,
  kinds,
  places,
  settings,
  status,
} from '../../support/engine.ts'
import { ownDatabase } from '../../support/server.ts'
import { Session } from '../../support/sessions.ts'
import { one, refused } from '../../support/sql.ts'

const database = ownDatabase()
const db = () => database.db
let worker: number
afterEach(() => restoreClock(db()))

interface Directive {
  readonly directive: string
  readonly job_id: number | null
  readonly token: number | null
}

const register = (name = 'trader', ttl = '30 s') =>
  one<number>(db(), 'select fencepost.register_worker($1, ttl => $2)', [name, ttl])

async function exchange(id: number, given: Record<string, unknown> = {}): Promise<Directive[]> {
  const list = Object.keys(given).map((name, index) => `, ${name} => $${index + 2}`)
  return db().query<Directive>(
    `select directive, job_id, token from fencepost.exchange($1${list.join('')})`,
    [id, ...Object.values(given)],
  )
}

const claimed = async (id: number, type: string, max = 10) =>
  (await exchange(id, { types: [type], max })).map((row) => row.job_id as number)

describe('exchange', () => {
  it('refuses arrays about its jobs that are shorter or longer', async () => {
    const id = await register()
    const pair = (kind: string) => ({ [`${kind}_ids`]: [1, 2], [`${kind}_tokens`]: [1, 1] })
    await refused(exchange(id, { ...pair('completed'), completed_results: [json(1)] }), 'JE003')
    for (const name of ['errors', 'details', 'retry_in', 'permanent']) {
      const given = { ...pair('failed'), [`failed_${name}`]: [null, null, null] }
      const { detail } = await refused(exchange(id, given), 'JE003')
      expect(detail).toBe(`received 2 ids and 3 ${name}`)
    }
  })

  it('settles results and claims new work in one go', async () => {
    worker = await register()
    const type = freshType()
    await enqueueBatch(db(), type, 6)
    const [a, b, c, d] = await claimed(worker, type, 4)
    const rows = await exchange(worker, {
      completed_ids: [a, b],
      completed_tokens: [1, 1],
      completed_results: [json({ ok: 1 }), null],
      failed_ids: [c],
      failed_tokens: [1],
      failed_errors: ['no luck'],
      failed_permanent: [true],
      running_ids: [d],
      running_tokens: [1],
      types: [type],
      max: 1,
    })
    expect(rows).toMatchObject([
      { directive: 'dead_letter', job_id: c, token: 1 },
      { directive: 'run', token: 1 },
    ])
    expect(
      await one(db(), 'select data from fencepost_private.event where job_id = $1', [a]),
    ).toEqual({ ok: 1 })
    expect(await status(db(), b as number)).toBe('completed')
    expect(await status(db(), d as number)).toBe('running')
  })

  it('gives a claimed job in full', async () => {
    worker = await register()
    const type = freshType()
    const id = await enqueue(db(), type, {
      payload: { n: 1 },
      headers: { h: 1 },
      priority: 7,
      max_attempts: 3,
      timeout: '1 min',
      tenant: 't',
      idempotency_key: 'k',
    })
    const [row] = await db().query(`select * from fencepost.exchange($1, types => $2, max => 1)`, [
      worker,
      [type],
    ])
    expect(row).toMatchObject({
      directive: 'run',
      job_id: id,
      token: 1,
      type,
      attempt: 1,
      max_attempts: 3,
      payload: { n: 1 },
      headers: { h: 1 },
      priority: 7,
      tenant: 't',
      idempotency_key: 'k',
      created_at: expect.any(Date),
      deadline: expect.any(Date),
      run_id: null,
      task_id: null,
    })
  })

  it('tells each refused result by its own token', async () => {
    worker = await register()
    const type = freshType()
    await enqueueBatch(db(), type, 2)
    const [a, b] = await claimed(worker, type)
    for (const id of [a, b]) await one(db(), 'select fencepost.release($1, 1)', [id])
    expect(await claimed(worker, type)).toEqual([a, b])
    const rows = await exchange(worker, {
      completed_ids: [a, a],
      completed_tokens: [1, 2],
      failed_ids: [b, b],
      failed_tokens: [1, 2],
    })
    expect(rows).toEqual([
      { directive: 'lost', job_id: a, token: 1 },
      { directive: 'lost', job_id: b, token: 1 },
      { directive: 'retry', job_id: b, token: 2 },
    ])
    expect(await kinds(db(), a as number)).toEqual(['job.released', 'job.completed'])
  })

  it('refuses the results of a job that another worker holds', async () => {
    worker = await register()
    const thief = await register('thief')
    const type = freshType()
    await enqueueBatch(db(), type, 2)
    const [a, b] = await claimed(worker, type)
    const rows = await exchange(thief, {
      completed_ids: [a],
      completed_tokens: [1],
      failed_ids: [b],
      failed_tokens: [1],
    })
    expect(rows.map((row) => row.directive)).toEqual(['lost', 'lost'])
    expect(await places(db(), a as number)).toEqual(['lease'])
    expect(await places(db(), b as number)).toEqual(['lease'])
  })

  it('ends as cancelled what failed after its cancel, and as completed what went well', async () => {
    worker = await register()
    const type = freshType()
    await enqueueBatch(db(), type, 2)
    const [a, b] = await claimed(worker, type)
    for (const id of [a, b]) await one(db(), 'select fencepost.cancel($1)', [id])
    const rows = await exchange(worker, {
      completed_ids: [a],
      completed_tokens: [1],
      failed_ids: [b],
      failed_tokens: [1],
    })
    expect(rows).toEqual([{ directive: 'cancelled', job_id: b, token: 1 }])
    expect(await status(db(), a as number)).toBe('completed')
    expect(await status(db(), b as number)).toBe('cancelled')
  })

  it('writes a heartbeat only when one is due, and then says what needs attention', async () => {
    worker = await register('beating', '30 s')
    const type = freshType()
    await enqueueBatch(db(), type, 2)
    await enqueue(db(), type, { timeout: '5 s' })
    const [kept, wanted, slow] = await claimed(worker, type)
    await one(db(), 'select fencepost.cancel($1)', [wanted])
    const running = { running_ids: [kept, wanted, slow, 9_999_999], running_tokens: [1, 1, 1, 1] }
    expect(await exchange(worker, running)).toEqual([])
    const beat = () =>
      one<Date>(db(), 'select heartbeat_at from fencepost_private.worker where worker_id = $1', [
        worker,
      ])
    const before = await beat()
    await moveClock(db(), '11 s')
    expect(await exchange(worker, running)).toEqual(
      [
        { directive: 'cancel', job_id: wanted, token: 1 },
        { directive: 'timeout', job_id: slow, token: 1 },
        { directive: 'lost', job_id: 9_999_999, token: 1 },
      ].sort((x, y) => (x.job_id ?? 0) - (y.job_id ?? 0)),
    )
    expect((await beat()).getTime() - before.getTime()).toBeGreaterThan(10_000)
  })

  it('claims nothing for a worker that drains, and says so', async () => {
    worker = await register('leaving')
    const type = freshType()
    await enqueueBatch(db(), type, 2)
    const [id] = await claimed(worker, type, 1)
    await db().query(
      `update fencepost_private.worker set status = 'draining' where worker_id = $1`,
      [worker],
    )
    await moveClock(db(), '11 s')
    expect(
      await exchange(worker, { completed_ids: [id], completed_tokens: [1], types: [type], max: 5 }),
    ).toEqual([{ directive: 'drain', job_id: null, token: null }])
    expect(await status(db(), id as number)).toBe('completed')
  })

  it('refuses a lost, stopped or unknown worker, and takes none of its results', async () => {
    worker = await register('gone')
    const type = freshType()
    await enqueueBatch(db(), type, 1)
    const [id] = await claimed(worker, type)
    const results = { completed_ids: [id], completed_tokens: [1] }
    await register('gone')
    expect((await refused(exchange(worker, results), 'JE010')).message).toMatch(/is lost/)
    expect(await status(db(), id as number)).toBe('running')
    const stopped = await register('stopped')
    await one(db(), 'select fencepost.stop_worker($1)', [stopped])
    expect((await refused(exchange(stopped), 'JE010')).message).toMatch(/is stopped/)
    expect((await refused(exchange(9_999_999), 'JE010')).message).toMatch(/is unknown/)
    await refused(db().query('select fencepost.exchange(null)'), 'JE003')
  })

  it('does nothing at all when a result is too large', async () => {
    worker = await register()
    const type = freshType()
    await settings(db(), type, { max_payload_bytes: 50 })
    await enqueueBatch(db(), type, 2)
    const [a, b] = await claimed(worker, type)
    await refused(
      exchange(worker, {
        completed_ids: [a, b],
        completed_tokens: [1, 1],
        completed_results: [json(1), json('x'.repeat(60))],
      }),
      'JE006',
    )
    expect(await status(db(), a as number)).toBe('running')
  })

  it.each([
    ['completed', { completed_ids: [1], completed_tokens: [] }],
    ['failed', { failed_ids: [1], failed_tokens: [1, 2] }],
    ['running', { running_ids: [], running_tokens: [1] }],
    ['types', { types: null }],
    ['max', { max: -1 }],
  ])('refuses %s that make no sense', async (_, given) => {
    worker = await register()
    await refused(exchange(worker, given), 'JE003')
  })

  it('refuses to run outside READ COMMITTED', async () => {
    worker = await register()
    await using session = await Session.open(database.url)
    await session.begin('repeatable read')
    await refused(session.query('select fencepost.exchange($1)', [worker]), 'JE003')
  })

  it('commits synchronously when it claims, whatever the session prefers', async () => {
    const type = freshType()
    worker = await register()
    await enqueue(db(), type)
    await using session = await Session.open(database.url)
    await session.query(`set synchronous_commit = off`)
    await session.begin()
    await session.query('select fencepost.exchange($1, types => $2, max => 1)', [worker, [type]])
    const [row] = await session.query(`select current_setting('synchronous_commit') as level`)
    expect(row).toEqual({ level: 'on' })
    await session.rollback()
  })
})
