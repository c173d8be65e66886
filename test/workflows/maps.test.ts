import { afterEach, describe, expect, it } from 'vitest'
import { bury, complete } from '../support/engine.ts'
import { begin, drain, expectSound, type Run } from '../support/runs.ts'
import { ownDatabase } from '../support/server.ts'
import { column, one } from '../support/sql.ts'

const database = ownDatabase()
const db = () => database.db
afterEach(() => expectSound(db()))

const over = '$.input.list'
const map = (spec: Record<string, unknown> = {}) => ({ kind: 'map', over, ...spec })

/** The status of each item, in order. */
async function items(run: Run, name = 'm'): Promise<string[]> {
  return (await run.items(name)).map(({ status }) => status)
}

describe('a map', () => {
  it('runs a job for each element; its output is theirs, in order', async () => {
    const run = await begin(db(), { m: map(), end: { after: ['m'] } }, { list: ['a', 'b', 'c'] })
    expect(await run.statuses()).toEqual({ m: 'waiting', end: 'pending' })
    expect(await run.row()).toMatchObject({ status: 'running', queued_tasks: 3, waiting_tasks: 1 })
    const jobs = await run.claimAll('m')
    expect(jobs.map(({ payload }) => payload)).toEqual([
      { item: 'a', index: 0 },
      { item: 'b', index: 1 },
      { item: 'c', index: 2 },
    ])
    for (const job of jobs.toReversed())
      await complete(db(), job, (job.payload as { index: number }).index * 10)
    expect((await run.claim('end')).payload).toEqual({
      input: { list: ['a', 'b', 'c'] },
      tasks: { m: [0, 10, 20] },
    })
  })

  it('over nothing is completed at once', async () => {
    const run = await begin(db(), { m: map(), end: { after: ['m'] } }, { list: [] })
    expect(await run.task('m')).toMatchObject({ status: 'completed', output: [], items: 0 })
    expect(await run.statuses()).toEqual({ m: 'completed', end: 'queued' })
  })

  it.each([
    ['nothing', {}],
    ['an object', { list: {} }],
    ['a null', { list: null }],
  ])('over %s fails', async (_, input) => {
    const run = await begin(db(), { m: map() }, input)
    expect(await run.task('m')).toMatchObject({
      status: 'failed',
      error: expect.stringContaining('over did not give an array'),
    })
  })

  it('over what another task returned', async () => {
    const run = await begin(db(), { a: {}, m: map({ after: ['a'], over: '$.tasks.a.parcels' }) })
    await run.complete('a', { parcels: [1, 2] })
    expect(await items(run)).toEqual(['queued', 'queued'])
  })

  it('builds payloads from the item, its index, the run, and both at once', async () => {
    const input = {
      item: '$.item.id',
      index: '$.index',
      who: '$.input.who',
      both: '$.input.list[*] ? (@.id == 1).id',
      sum: '$.item.id + $.input.base',
      dollar: '$$',
      all: '$.tasks.a',
    }
    const run = await begin(
      db(),
      { a: {}, m: map({ input, after: ['a'] }) },
      { list: [{ id: 1 }, { id: 2 }], who: '$.item.id', base: 40 },
    )
    await run.complete('a', ['$$', '$.index', { $: '$' }])
    const rest = { who: '$.item.id', both: [1], dollar: '$', all: ['$$', '$.index', { $: '$' }] }
    expect((await run.claimAll('m')).map(({ payload }) => payload)).toEqual([
      { item: 1, index: 0, sum: 41, ...rest },
      { item: 2, index: 1, sum: 42, ...rest },
    ])
  })

  it('with an item that failed waits for the others, then fails; its replay goes on from there', async () => {
    const run = await begin(db(), { m: map(), end: { after: ['m'] } }, { list: [0, 1, 2] })
    const [first, second, third] = await run.claimAll('m')
    if (!first || !second || !third) throw new Error('three items are expected')
    await complete(db(), first, 'one')
    await bury(db(), second)
    expect(await run.task('m')).toMatchObject({ status: 'waiting', items_open: 1, items_failed: 1 })
    expect(await run.status()).toBe('running')
    await bury(db(), third)
    expect(await run.task('m')).toMatchObject({ status: 'failed', error: '2 of 3 items failed' })
    expect(await run.row()).toMatchObject({ status: 'failed', failed_tasks: 1, waiting_tasks: 0 })

    await one(db(), 'select fencepost.replay_task($1)', [(await run.task('m')).id])
    expect(await items(run)).toEqual(['completed', 'queued', 'queued'])
    expect(await run.statuses()).toEqual({ m: 'waiting', end: 'pending' })
    await expectSound(db())
    expect(await drain(db(), run.workflow, ['m', 'end'], () => 'again')).toEqual(['m', 'm', 'end'])
    expect((await run.task('m')).output).toEqual(['one', 'again', 'again'])
    expect(await run.status()).toBe('completed')
  })

  it('whose item is replayed while others still run never fails', async () => {
    const run = await begin(db(), { m: map() }, { list: [0, 1] })
    const [first, second] = await run.claimAll('m')
    if (!first || !second) throw new Error('two items are expected')
    await bury(db(), first)
    await one(db(), 'select fencepost.replay_task(id) from fencepost.tasks where job_id = $1', [
      first.job_id,
    ])
    expect(await run.task('m')).toMatchObject({ status: 'waiting', items_open: 2, items_failed: 0 })
    await complete(db(), second)
    await run.complete('m')
    expect(await run.status()).toBe('completed')
  })

  it('with on_failure continue: replays count where they were counted before', async () => {
    const run = await begin(
      db(),
      { m: map({ on_failure: 'continue' }), end: { after: ['m'] } },
      { list: [0] },
    )
    await run.bury('m')
    expect(await run.statuses()).toEqual({ m: 'failed', end: 'queued' })
    await run.call('retry_run')
    await expectSound(db())
    await run.bury('m')
    await expectSound(db())
    await run.complete('end')
    expect(await run.status()).toBe('completed')
  })

  it('an item that is cancelled counts as failed', async () => {
    const run = await begin(db(), { m: map() }, { list: [0, 1] })
    await one(db(), 'select fencepost.cancel($1)', [(await run.items('m'))[0]?.job_id])
    await run.complete('m')
    expect(await run.task('m')).toMatchObject({ status: 'failed', error: '1 of 2 items failed' })
    expect(await items(run)).toEqual(['cancelled', 'completed'])
  })

  it('an item whose payload is refused fails alone', async () => {
    const run = await begin(
      db(),
      { a: {}, m: map({ after: ['a'], max_parallel: 1 }) },
      { list: [1, 'x'.repeat(50), 3] },
    )
    await db().query(
      'update fencepost_private.job_type set max_payload_bytes = 40 where type = $1',
      [`${run.workflow}.m`],
    )
    await run.complete('a')
    await run.complete('m', 'ok')
    expect(await items(run)).toEqual(['completed', 'failed', 'queued'])
    await run.complete('m')
    expect(await run.task('m')).toMatchObject({ status: 'failed', error: '1 of 3 items failed' })
  })
})

describe('max_parallel', () => {
  const list = Array.from({ length: 7 }, (_, index) => index)

  it('holds at every moment, and its room is used', async () => {
    const run = await begin(db(), { m: map({ max_parallel: 3 }) }, { list })
    expect(await items(run)).toEqual([...Array(3).fill('queued'), ...Array(4).fill('pending')])
    const held = await run.claimAll('m')
    expect(held).toHaveLength(3)
    for (let done = 0; done < 7; done++) {
      const job = held.shift()
      if (job === undefined) throw new Error('there is always one')
      if (done % 3 === 1) await bury(db(), job)
      else await complete(db(), job, done)
      await expectSound(db())
      held.push(...(await run.claimAll('m')))
      expect(held.length).toBe(Math.min(3, 6 - done))
    }
    expect(await run.task('m')).toMatchObject({ status: 'failed', error: '2 of 7 items failed' })
  })

  it('holds when many items come back at once', async () => {
    const run = await begin(db(), { m: map({ max_parallel: 2 }) }, { list })
    for (let n = 0; n < 5; n++) await run.bury('m')
    const failed = await column<number>(
      db(),
      `select id from fencepost.tasks where run_id = $1 and item is not null and status = 'failed'`,
      [run.id],
    )
    for (const id of failed) {
      await one(db(), 'select fencepost.replay_task($1)', [id])
      await expectSound(db())
    }
    for (let left = 7; left > 0; left--) {
      const jobs = await one<number>(
        db(),
        `select count(*)::int from fencepost_private.ready r join fencepost_private.job b using (id) where b.run_id = $1`,
        [run.id],
      )
      expect(jobs).toBe(Math.min(2, left))
      await run.complete('m')
      await expectSound(db())
    }
    expect(await run.status()).toBe('completed')
  })

  it('holds when the run is retried while items still run', async () => {
    const run = await begin(db(), { m: map({ max_parallel: 2 }) }, { list })
    for (let n = 0; n < 4; n++) await run.bury('m')
    expect(await run.call('retry_run')).toBe(4)
    await expectSound(db())
    expect(await drain(db(), run.workflow, ['m'])).toHaveLength(7)
    expect(await run.status()).toBe('completed')
  })

  it('holds when a whole failed map is replayed, also while the run is paused', async () => {
    const run = await begin(db(), { m: map({ max_parallel: 2 }) }, { list })
    for (let n = 0; n < 7; n++) await run.bury('m')
    expect(await run.status()).toBe('failed')
    await run.call('pause_run')
    expect(await run.call('retry_run')).toBe(7)
    await expectSound(db())
    expect(await run.claimAll('m')).toEqual([])
    await run.call('resume_run')
    await expectSound(db())
    const held = await run.claimAll('m')
    expect(held).toHaveLength(2)
    await one(
      db(),
      'select fencepost.cancel(p.id) from fencepost_private.parked p order by p.id limit 1',
    )
    await expectSound(db())
    for (const job of held) await complete(db(), job)
    expect(await drain(db(), run.workflow, ['m'])).toHaveLength(4)
    expect(await run.task('m')).toMatchObject({ status: 'failed', error: '1 of 7 items failed' })
  })

  it('counts an attempt that waits for its retry', async () => {
    const run = await begin(
      db(),
      { m: map({ max_parallel: 1, retry: { max_attempts: 2 } }) },
      { list: [0, 1] },
    )
    expect(await run.fail('m')).toBe('retry')
    expect(await items(run)).toEqual(['queued', 'pending'])
    expect(await run.claimAll('m')).toEqual([])
  })
})

describe('a map in a run that is', () => {
  it('paused starts no further item until it is resumed', async () => {
    const run = await begin(db(), { m: map({ max_parallel: 2 }) }, { list: [0, 1, 2, 3] })
    const [first] = await run.claimAll('m', 1)
    if (first === undefined) throw new Error('an item is expected')
    await run.call('pause_run')
    await complete(db(), first)
    await expectSound(db())
    expect(await items(run)).toEqual(['completed', 'queued', 'pending', 'pending'])
    expect(await run.claimAll('m')).toEqual([])
    await run.call('resume_run')
    expect(await items(run)).toEqual(['completed', 'queued', 'queued', 'pending'])
    expect(await drain(db(), run.workflow, ['m'])).toHaveLength(3)
    expect(await run.status()).toBe('completed')
  })

  it('paused before it began begins when the run is resumed', async () => {
    const run = await begin(db(), { a: {}, m: map({ after: ['a'] }) }, { list: [0] })
    const job = await run.claim('a')
    await run.call('pause_run')
    await complete(db(), job)
    expect(await run.statuses()).toEqual({ a: 'completed', m: 'pending' })
    await run.call('resume_run')
    expect(await items(run)).toEqual(['queued'])
  })

  it('cancelled ends with all its items but those that run', async () => {
    const run = await begin(
      db(),
      { m: map({ max_parallel: 2 }), end: { after: ['m'] } },
      { list: [0, 1, 2, 3] },
    )
    const held = await run.claim('m')
    await run.call('cancel_run')
    expect(await run.statuses()).toEqual({ m: 'cancelled', end: 'cancelled' })
    expect(await items(run)).toEqual(['running', 'cancelled', 'cancelled', 'cancelled'])
    expect(await run.row()).toMatchObject({ status: 'cancelled', finished_at: null })
    await complete(db(), held)
    expect(await items(run)).toEqual(['completed', 'cancelled', 'cancelled', 'cancelled'])
    expect((await run.row()).finished_at).not.toBeNull()
  })
})
