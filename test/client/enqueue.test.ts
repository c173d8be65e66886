import pg from 'pg'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { defineJob, Fencepost, type JobRequest } from '../../src/index.ts'
import { ownDatabase } from '../support/server.ts'
import { refused } from '../support/sql.ts'

const database = ownDatabase()
let engine: Fencepost
beforeAll(async () => {
  engine = new Fencepost({ url: database.url })
})
afterAll(async () => {
  await engine.close()
})

const email = defineJob({
  type: 'email.send',
  payload: z.object({ to: z.email(), times: z.coerce.number().optional() }),
})

describe('enqueue', () => {
  it('takes a definition and a payload that fits it', async () => {
    const id = await engine.enqueue(email, { to: 'ada@example.org' })
    expect(await engine.job(id)).toMatchObject({
      id,
      type: 'email.send',
      status: 'pending',
      payload: { to: 'ada@example.org' },
      priority: 5,
      attempts: 0,
    })
  })

  it('takes the name of a type and any JSON', async () => {
    const id = await engine.enqueue('anything', [1, { deep: null }])
    expect((await engine.job(id))?.payload).toEqual([1, { deep: null }])
    expect((await engine.job(await engine.enqueue('anything')))?.payload).toEqual({})
    expect((await engine.job(await engine.enqueue('anything', null)))?.payload).toBeNull()
  })

  it('takes every option', async () => {
    const runAt = new Date(Date.now() + 3_600_000)
    const id = await engine.enqueue(
      email,
      { to: 'ada@example.org' },
      {
        priority: 8,
        runAt,
        idempotencyKey: 'welcome:42',
        maxAttempts: 3,
        timeout: '1m 30s',
        headers: { traceparent: '00-ab' },
        tenant: 'acme',
      },
    )
    expect(await engine.job(id)).toMatchObject({
      priority: 8,
      availableAt: runAt,
      idempotencyKey: 'welcome:42',
      maxAttempts: 3,
      timeout: '00:01:30',
      headers: { traceparent: '00-ab' },
      tenant: 'acme',
    })
    const again = await engine.enqueue(
      email,
      { to: 'ada@example.org' },
      { idempotencyKey: 'welcome:42', tenant: 'acme' },
    )
    expect(again).toBe(id)
    const other = { idempotencyKey: 'welcome:42', tenant: 'acme' }
    await refused(engine.enqueue(email, { to: 'bob@example.org' }, other), 'JE005')
  })

  it('refuses a payload that does not fit, saying what and where', async () => {
    const { message } = await refused(engine.enqueue(email, { to: 'nobody' }), 'JE006')
    expect(message).toBe('the payload for email.send is invalid: to: Invalid email address')
    await refused(engine.enqueue(email, undefined as never), 'JE006')
  })

  it.each<[string, object, RegExp]>([
    ['an unknown option', { prioritty: 1 }, /prioritty is not an option/],
    ['a negative priority', { priority: -1 }, /priority must be a whole number from 0 to 9/],
    ['a malformed delay', { delay: 'soon' }, /delay must be a number of milliseconds or a text/],
    ['a negative delay', { delay: -5 }, /delay must be/],
    ['delay and run_at at once', { delay: 5, runAt: new Date() }, /give run_at or delay, not both/],
    ['an invalid date', { runAt: new Date(Number.NaN) }, /runAt must be a valid Date/],
    ['an empty key', { idempotencyKey: '' }, /idempotencyKey must be a text/],
    ['NUL in a key', { idempotencyKey: 'a\0' }, /NUL/],
    ['headers that are no object', { headers: [1] }, /headers must be an object/],
    ['no attempts', { maxAttempts: 0 }, /maxAttempts must be/],
    ['a transaction that is none', { tx: {} }, /tx is no transaction/],
  ])('refuses %s', async (_, options, message) => {
    const error = await engine.enqueue('anything', {}, options as never).then(
      () => new Error('it went well'),
      (reason) => reason as Error,
    )
    expect(error.message).toMatch(message)
    expect(error).toMatchObject({ code: 'JE003' })
  })

  it('names the option that was probably meant', async () => {
    const { hint } = await refused(
      engine.enqueue('anything', {}, { idempotencykey: 'x' } as never),
      'JE003',
    )
    expect(hint).toMatch(/Did you mean idempotencyKey\?/)
  })

  it.each<[string, unknown, string]>([
    ['a cycle', cycle(), 'JE003'],
    ['a bigint', { n: 1n }, 'JE003'],
    ['NUL in text', { text: 'a\0b' }, 'JE003'],
    ['2 MB', { text: 'x'.repeat(2_000_000) }, 'JE006'],
    ['10 MB', { text: 'x'.repeat(10_000_000) }, 'JE006'],
  ])('refuses a payload with %s', async (_, payload, code) => {
    await refused(engine.enqueue('anything', payload), code)
  })

  it('refuses a malformed type', async () => {
    await refused(engine.enqueue('no spaces please'), 'JE003')
    await refused(engine.enqueue(7 as never), 'JE003')
  })
})

describe('enqueueMany', () => {
  it('takes jobs of any types, in order, all or none', async () => {
    const jobs: JobRequest[] = [
      { job: email, payload: { to: 'a@example.org' }, priority: 9 },
      { job: 'report', payload: { month: 11 }, delay: '10m', idempotencyKey: 'report:11' },
      { job: 'report', payload: { month: 11 }, idempotencyKey: 'report:11' },
    ]
    const made = await engine.enqueueMany(jobs)
    expect(made.map(({ created }) => created)).toEqual([true, true, false])
    expect(made[2]?.id).toBe(made[1]?.id)
    expect(await engine.job(made[0]?.id as number)).toMatchObject({
      type: 'email.send',
      priority: 9,
    })
    expect(await engine.enqueueMany([])).toEqual([])

    const before = await engine.jobs({ type: 'report' })
    const bad = [{ job: 'report' }, { job: 'report', priorty: 1 }] as never
    const { message } = await refused(engine.enqueueMany(bad), 'JE003')
    expect(message).toMatch(/enqueueMany, job 2: priorty is not an option/)
    const wrong = [{ job: 'report' }, { job: email, payload: {} }]
    await refused(engine.enqueueMany(wrong), 'JE006')
    expect(await engine.jobs({ type: 'report' })).toEqual(before)
  })
})

describe('enqueueBatch', () => {
  it('returns an id for each payload, in order', async () => {
    const ids = await engine.enqueueBatch(
      email,
      Array.from({ length: 1_000 }, (_, times) => ({ to: 'a@example.org', times })),
      { priority: 2, delay: '1h' },
    )
    expect(ids).toHaveLength(1_000)
    expect(await engine.job(ids[999] as number)).toMatchObject({
      payload: { times: 999 },
      priority: 2,
    })
    await refused(engine.enqueueBatch(email, [{ to: 'a@example.org' }, { to: '' }]), 'JE006')
    await refused(engine.enqueueBatch('anything', [], { idempotencyKey: 'x' } as never), 'JE003')
    expect(await engine.enqueueBatch('anything', [])).toEqual([])
  })
})

describe('a transaction of the application', () => {
  const exists = async (id: number) => (await engine.job(id)) !== undefined

  it('of postgres.js: the job commits or vanishes with it', async () => {
    const sql = postgres(database.url, { max: 1, onnotice: () => {} })
    const kept = await sql.begin((tx) => engine.enqueue(email, { to: 'a@example.org' }, { tx }))
    expect(await exists(kept)).toBe(true)
    let gone = 0
    const rolledBack = sql.begin(async (tx) => {
      gone = await engine.enqueue(email, { to: 'a@example.org' }, { tx })
      throw new Error('the order is invalid')
    })
    await expect(rolledBack).rejects.toThrow('the order is invalid')
    expect(gone).toBeGreaterThan(kept)
    expect(await exists(gone)).toBe(false)
    await sql.end()
  })

  it('of node-postgres: the same, for every kind of enqueue and for operations', async () => {
    const client = new pg.Client({ connectionString: database.url })
    await client.connect()
    await client.query('begin')
    const one = await engine.enqueue('anything', {}, { tx: client })
    const [two] = await engine.enqueueMany([{ job: 'anything' }], { tx: client })
    const [three] = await engine.enqueueBatch('anything', [{}], { tx: client })
    expect(await engine.cancel(one, 'no need', { tx: client })).toBe('cancelled')
    const ids = [one, two?.id, three] as number[]
    expect(await Promise.all(ids.map(exists))).toEqual([false, false, false])
    await client.query('commit')
    expect(await Promise.all(ids.map(exists))).toEqual([true, true, true])
    expect(await engine.job(one)).toMatchObject({ status: 'cancelled' })
    await client.query('begin')
    const gone = await engine.enqueue('anything', {}, { tx: client })
    await client.query('rollback')
    expect(await exists(gone)).toBe(false)
    await client.end()
  })

  it('of anything with query(text, params)', async () => {
    const id = await engine.database.transaction((tx) =>
      engine.enqueue(
        'anything',
        { via: 'adapter' },
        { tx: { query: (text: string, params?: unknown[]) => tx.query(text, params) } },
      ),
    )
    expect((await engine.job(id))?.payload).toEqual({ via: 'adapter' })
  })
})

it('of 50 enqueues with one idempotency key at once, all get the same job', async () => {
  const ids = await Promise.all(
    Array.from({ length: 50 }, () => engine.enqueue('anything', {}, { idempotencyKey: 'once' })),
  )
  expect(new Set(ids).size).toBe(1)
})

it('says what is wrong with its own options', async () => {
  await refused((async () => new Fencepost({} as never))(), 'JE003')
  await refused(
    (async () => new Fencepost({ url: 'postgresql://x', databse: 1 } as never))(),
    'JE003',
  )
  await refused((async () => engine.worker([], {}))(), 'JE003')
  await refused((async () => engine.worker([email], {}))(), 'JE003')
  const run = defineJob({ type: 'runs', run: () => {} })
  await refused((async () => engine.worker([run, run]))(), 'JE003')
  const { hint } = await refused(
    (async () => engine.worker([run], { concurency: 5 } as never))(),
    'JE003',
  )
  expect(hint).toMatch(/Did you mean concurrency\?/)
})

it('shares a database that the application holds, and leaves it open', async () => {
  const shared = new Fencepost({ database: database.db })
  const job = defineJob({ type: 'shared', run: () => 'ran' })
  const worker = shared.worker([job], { poll: '20ms', logger: silent })
  await worker.start()
  const id = await shared.enqueue(job, {})
  await expect.poll(async () => (await shared.job(id))?.status).toBe('completed')
  await shared.close()
  expect(worker.state).toBe('stopped')
  expect(await database.db.query('select 1 as one')).toEqual([{ one: 1 }])
})

const silent = { debug() {}, info() {}, warn() {}, error() {}, child: () => silent }

function cycle(): object {
  const value: Record<string, unknown> = {}
  value.self = value
  return value
}
