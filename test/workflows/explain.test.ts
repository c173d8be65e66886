import { afterEach, describe, expect, it } from 'vitest'
import { claim } from '../support/engine.ts'
import { begin, expectSound, publish, type Run } from '../support/runs.ts'
import { ownDatabase } from '../support/server.ts'
import { one, refused } from '../support/sql.ts'

const database = ownDatabase()
const db = () => database.db
afterEach(() => expectSound(db()))

interface Reason {
  readonly reason: string
  readonly detail: string
  readonly release: string | null
}
const explain = (run: Run, task: string) =>
  db().query<Reason>('select * from fencepost.explain_task($1, $2)', [run.id, task])

/** Does what a reason says would release a task. */
const release = (reasons: Reason[]) => one(db(), String(reasons[0]?.release))

describe('explain_task says why a task is not running, and what would help', () => {
  it('its parents, and what became of them', async () => {
    const run = await begin(db(), { a: {}, b: {}, c: {}, end: { after: ['a', 'b', 'c'] } })
    await run.complete('a')
    await run.bury('b', 'no stock')
    expect(await explain(run, 'end')).toEqual([
      {
        reason: 'it waits for b',
        detail: 'which is failed: no stock',
        release: `select fencepost.replay_task(${(await run.task('b')).id})`,
      },
      {
        reason: 'it waits for c',
        detail: 'which is queued',
        release: `select * from fencepost.explain_task(${run.id}, 'c')`,
      },
    ])
    await release(await explain(run, 'end'))
    expect((await run.task('b')).status).toBe('queued')
  })

  it('a pause', async () => {
    const run = await begin(db(), { a: {} })
    await run.call('pause_run', 'audit')
    const reasons = await explain(run, 'a')
    expect(reasons).toMatchObject([
      { reason: 'its run is paused', detail: expect.stringContaining('audit') },
    ])
    await release(reasons)
    expect(await run.status()).toBe('running')
  })

  it('a gate, before a task that could run and before one that waits for parents too', async () => {
    const run = await begin(db(), { a: {}, b: { after: ['a'] } })
    for (const task of ['a', 'b'])
      await one(db(), `select fencepost.request_approval($1, 'look')`, [(await run.task(task)).id])
    expect((await explain(run, 'b')).map(({ reason }) => reason)).toEqual([
      'somebody must approve it first',
      'it waits for a',
    ])
    const reasons = await explain(run, 'a')
    expect(reasons).toMatchObject([{ reason: 'somebody must approve it first', detail: 'look' }])
    await release(reasons)
    expect(await run.claimAll('a')).toHaveLength(1)
  })

  it('a decision, a time, a signal', async () => {
    const run = await begin(db(), {
      ok: { kind: 'approval' },
      t: { kind: 'timer', delay: '1 hour' },
      s: { kind: 'signal', signal: 'paid' },
    })
    expect(await explain(run, 't')).toMatchObject([
      {
        reason: 'it waits for a time',
        detail: expect.stringMatching(/^until \d{4}-/),
        release: null,
      },
    ])
    await release(await explain(run, 'ok'))
    const signal = await explain(run, 's')
    expect(signal).toMatchObject([
      { reason: 'it waits for the signal paid', detail: 'without an end' },
    ])
    await release(signal)
    expect(await run.statuses()).toEqual({ ok: 'completed', t: 'waiting', s: 'completed' })
  })

  it('its items, its child run', async () => {
    const workflow = await publish(db(), { x: {} })
    const run = await begin(
      db(),
      { m: { kind: 'map', over: '$.input.list' }, call: { kind: 'workflow', workflow } },
      { list: [1, 2, 3] },
    )
    await run.bury('m')
    const items = await explain(run, 'm')
    expect(items).toMatchObject([
      { reason: 'its items are not done', detail: '2 of 3 are open, 1 failed' },
    ])
    expect(await db().query(String(items[0]?.release))).toHaveLength(3)
    const child = await explain(run, 'call')
    expect(child).toMatchObject([
      {
        reason: 'its child run has not ended',
        detail: expect.stringMatching(/^run \d+ is running$/),
      },
    ])
    expect(await db().query(String(child[0]?.release))).toHaveLength(1)
  })

  it('its job', async () => {
    const run = await begin(db(), { a: {} })
    expect((await explain(run, 'a')).map(({ reason }) => reason)).toEqual(['its job: no_worker'])
    await claim(db(), `${run.workflow}.other`, 1, 'somebody')
    await run.claim('a')
    expect((await explain(run, 'a')).map(({ reason }) => reason)).toEqual(['its job: running'])
  })

  it('that it has ended, and how', async () => {
    const run = await begin(db(), {
      done: {},
      skipped: { when: 'false == true' },
      failed: {},
      cancelled: {},
    })
    await run.complete('done')
    await run.bury('failed', 'no use')
    await one(db(), `select fencepost.cancel($1, 'not wanted')`, [
      (await run.task('cancelled')).job_id,
    ])
    expect(await explain(run, 'done')).toMatchObject([
      { reason: 'it is completed', detail: expect.stringMatching(/^since/), release: null },
    ])
    expect(await explain(run, 'skipped')).toMatchObject([
      { reason: 'it is skipped', detail: expect.stringContaining('condition is false') },
    ])
    expect(await explain(run, 'cancelled')).toMatchObject([
      { reason: 'it is cancelled', detail: 'not wanted' },
    ])
    const failed = await explain(run, 'failed')
    expect(failed).toMatchObject([{ reason: 'it is failed', detail: 'no use' }])
    await release(failed)
    expect((await run.task('failed')).status).toBe('queued')
  })

  it('is refused for what is not there', async () => {
    const run = await begin(db(), { a: {} })
    await refused(explain(run, 'b'), 'JE002')
    await refused(one(db(), `select fencepost.explain_task(0, 'a')`), 'JE002')
    await refused(one(db(), 'select fencepost.explain_task(null, null)'), 'JE002')
  })
})

describe('explain_job', () => {
  it('offers no replay of a dead letter whose run cannot live again', async () => {
    const run = await begin(db(), { a: {} })
    await run.bury('a')
    const { job_id } = await run.task('a')
    const offered = () =>
      one<string>(db(), 'select release from fencepost.explain_job($1)', [job_id])
    expect(await offered()).toContain(`fencepost.replay(${job_id})`)
    await run.call('cancel_run')
    expect(await offered()).not.toContain('fencepost.replay(')
    await one(db(), 'select fencepost.discard($1)', [job_id])
  })

  it('knows what holds the job of a task', async () => {
    const run = await begin(
      db(),
      { paused: {}, m: { kind: 'map', over: '$.input.list', max_parallel: 1 } },
      { list: [1, 2] },
    )
    const first = (task: string) =>
      one<string>(db(), 'select detail from fencepost.explain_job($1) limit 1', [task])
    const { job_id } = await run.task('paused')
    await one(db(), 'select fencepost.request_approval($1)', [(await run.task('paused')).id])
    expect(await first(String(job_id))).toContain('must approve its task')
    await one(db(), 'select fencepost.approve($1)', [await run.approval('paused')])
    await run.call('pause_run')
    expect(await first(String(job_id))).toBe('Its run is paused.')
  })
})
