import { afterEach, describe, expect, it } from 'vitest'
import { bury, claimOne, complete, fail, kinds } from '../support/engine.ts'
import { begin, expectSound, publish, start, typeOf } from '../support/runs.ts'
import { ownDatabase } from '../support/server.ts'
import { one, refused } from '../support/sql.ts'

const database = ownDatabase()
const db = () => database.db
afterEach(() => expectSound(db()))

const replay = (id: number) => one(db(), 'select fencepost.replay_task($1)', [id])

describe('a task that fails for good', () => {
  it('fails its run at once; what does not depend on it goes on, what does stays pending', async () => {
    const run = await begin(db(), { a: {}, b: { after: ['a'] }, x: {}, y: { after: ['x'] } })
    await run.bury('a', 'broken')
    expect(await run.row()).toMatchObject({ status: 'failed', finished_at: null, failed_tasks: 1 })
    expect(await run.task('a')).toMatchObject({ status: 'failed', error: 'broken' })
    await run.complete('x')
    await run.complete('y')
    expect(await run.statuses()).toEqual({
      a: 'failed',
      b: 'pending',
      x: 'completed',
      y: 'completed',
    })
    expect(await run.row()).toMatchObject({ status: 'failed', finished_at: expect.any(Date) })
    expect(await run.events()).toEqual(['run.started', 'run.failed'])
  })

  it('comes after all its attempts, and a retry is no failure', async () => {
    const run = await begin(db(), { a: { retry: { max_attempts: 2 } } })
    expect(await run.fail('a')).toBe('retry')
    expect(await run.statuses()).toEqual({ a: 'queued' })
    expect(await run.status()).toBe('running')
    await db().query("update fencepost_private.delayed set available_at = '-infinity'")
    await one(db(), 'select fencepost_private.promote()')
    expect(await run.fail('a', 'again')).toBe('dead_letter')
    expect(await run.task('a')).toMatchObject({ status: 'failed', error: 'again', attempts: 2 })
  })

  it('is replayed: the run goes on as if nothing had been', async () => {
    const run = await begin(db(), { a: {}, b: { after: ['a'] } })
    await run.bury('a')
    await replay((await run.task('a')).id)
    expect(await run.row()).toMatchObject({ status: 'running', finished_at: null, failed_tasks: 0 })
    expect(await run.task('a')).toMatchObject({ status: 'queued', error: null })
    await run.complete('a', 'late')
    expect((await run.claim('b')).payload).toMatchObject({ tasks: { a: 'late' } })
    await refused(replay((await run.task('a')).id), 'JE004')
  })

  it('is replayed through its job alike, also by filter', async () => {
    const run = await begin(db(), { a: {}, b: {} })
    await run.bury('a', 'odd 17')
    await run.bury('b', 'odd 17')
    await one(db(), 'select fencepost.replay($1)', [(await run.task('a')).job_id])
    expect(await run.status()).toBe('failed')
    expect(
      await one(db(), `select fencepost.replay_matching('{"error": "odd 17"}', dry_run => false)`),
    ).toBe(1)
    expect(await run.status()).toBe('running')
  })

  it('holds up no other: a replay by filter leaves out those of runs that cannot live again', async () => {
    const workflow = await publish(db(), { a: {} })
    const [cancelled, failed] = [await start(db(), workflow), await start(db(), workflow)]
    for (const job of await failed.claimAll('a')) await bury(db(), job, 'odd 18')
    await cancelled.call('cancel_run')
    const letter = (await cancelled.task('a')).job_id
    await refused(one(db(), 'select fencepost.replay($1)', [letter]), 'JE004')
    const replayed = (dry: boolean, max: number) =>
      one(db(), `select fencepost.replay_matching('{"error": "odd 18"}', $1, $2)`, [dry, max])
    expect([await replayed(true, 1), await replayed(true, 10)]).toEqual([1, 1])
    expect([await replayed(false, 1), await replayed(false, 10)]).toEqual([1, 0])
    expect([await cancelled.status(), await failed.status()]).toEqual(['cancelled', 'running'])
    expect(
      await one(db(), `select fencepost.discard_matching('{"error": "odd 18"}', dry_run => false)`),
    ).toBe(1)
  })

  it('is looked for among many of those in few steps, however small the max', async () => {
    const workflow = await publish(db(), { a: {} })
    for (let n = 0; n < 5; n++) {
      const run = await start(db(), workflow)
      for (const job of await run.claimAll('a')) await bury(db(), job, 'odd 19')
      await run.call('cancel_run')
    }
    await db().transaction(async (tx) => {
      const calls = () =>
        one(
          tx,
          `select coalesce(sum(calls), 0) from pg_stat_xact_user_functions where funcname = 'matching_dead_letters'`,
        )
      const before = Number(await calls())
      const replay = `select fencepost.replay_matching('{"error": "odd 19"}', false, 1)`
      expect(await one(tx, replay)).toBe(0)
      expect(Number(await calls()) - before).toBe(1)
    })
    for (const max of ['null', '0', '100001'])
      await refused(one(db(), `select fencepost.replay_matching('{}', true, ${max})`), 'JE003')
  })

  it('is given up: the run stays failed', async () => {
    const run = await begin(db(), { a: {} })
    await run.bury('a')
    await one(db(), 'select fencepost.discard($1)', [(await run.task('a')).job_id])
    expect(await run.statuses()).toEqual({ a: 'failed' })
    await refused(replay((await run.task('a')).id), 'JE004')
    await refused(run.call('retry_run'), 'JE004')
  })

  it('is cancelled singly: the run fails', async () => {
    const run = await begin(db(), { a: {}, b: { after: ['a'] } })
    await one(db(), 'select fencepost.cancel($1, $2)', [(await run.task('a')).job_id, 'not wanted'])
    expect(await run.task('a')).toMatchObject({ status: 'cancelled', error: 'not wanted' })
    expect(await run.status()).toBe('failed')
  })
})

describe('on_failure continue', () => {
  it('goes on with no output and a readable error', async () => {
    const run = await begin(db(), {
      a: { on_failure: 'continue' },
      b: { after: ['a'], input: { output: '$.tasks.a', error: '$.errors.a' } },
      c: { after: ['a'], when: 'exists($.errors.a)' },
      d: { after: ['a'], when: '!exists($.errors.a)' },
    })
    await run.bury('a', 'it rained')
    expect(await run.statuses()).toEqual({ a: 'failed', b: 'queued', c: 'queued', d: 'skipped' })
    expect(await run.status()).toBe('running')
    expect((await run.claim('b')).payload).toEqual({ output: null, error: 'it rained' })
    expect((await run.claim('c')).payload).toEqual({ input: {}, tasks: { a: null } })
  })

  it('completes a run although a task failed; its replay is heard by nobody twice', async () => {
    const run = await begin(db(), { a: { on_failure: 'continue' }, b: { after: ['a'] } })
    await run.bury('a')
    await run.complete('b')
    expect(await run.row()).toMatchObject({ status: 'completed', failed_tasks: 0, ended_tasks: 2 })
    await replay((await run.task('a')).id)
    expect(await run.row()).toMatchObject({ status: 'running', finished_at: null })
    await run.complete('a', 1)
    expect(await run.statuses()).toEqual({ a: 'completed', b: 'completed' })
    expect(await run.status()).toBe('completed')
    expect(await run.events()).toEqual(['run.started', 'run.completed', 'run.completed'])
  })

  it('fails again after a replay, and the numbers stay right', async () => {
    const run = await begin(db(), { a: { on_failure: 'continue' }, b: { after: ['a'] } })
    for (let n = 0; n < 3; n++) {
      if (n > 0) await replay((await run.task('a')).id)
      await run.bury('a')
      await expectSound(db())
    }
    expect(await run.statuses()).toEqual({ a: 'failed', b: 'queued' })
  })

  it.each([
    ['an approval', { kind: 'approval', expires_after: '1 s' }],
    ['a map', { kind: 'map', over: '$.input.nothing' }],
    ['a child that does not exist', { kind: 'workflow', workflow: 'nope' }],
    ['a timer without a time', { kind: 'timer', until: '$.input.nothing' }],
  ])('holds for %s', async (_, spec) => {
    const run = await begin(db(), { a: { ...spec, on_failure: 'continue' }, b: { after: ['a'] } })
    if (spec.kind === 'approval')
      await one(db(), 'select fencepost.reject($1)', [await run.approval('a')])
    expect(await run.statuses()).toEqual({ a: 'failed', b: 'queued' })
  })
})

describe('retry_run', () => {
  it('replays all dead letters of a run and tells how many', async () => {
    const run = await begin(db(), { a: {}, b: {}, c: { after: ['a', 'b'] } })
    await run.bury('a')
    await run.bury('b')
    expect(await run.call('retry_run')).toBe(2)
    await refused(run.call('retry_run'), 'JE004')
    await run.complete('a')
    await run.complete('b')
    await run.complete('c')
    expect(await run.status()).toBe('completed')
    await refused(run.call('retry_run'), 'JE004')
    await refused(one(db(), 'select fencepost.retry_run(0)'), 'JE002')
    await refused(one(db(), 'select fencepost.replay_task(0)'), 'JE002')
  })
})

describe('fencing', () => {
  it('a stale completion moves no run', async () => {
    const run = await begin(db(), { a: {}, b: { after: ['a'] } })
    const stale = await run.claim('a')
    await one(db(), 'select fencepost.release($1, $2)', [stale.job_id, stale.token])
    const held = await run.claim('a')
    await refused(complete(db(), stale), 'JE001')
    await refused(fail(db(), stale), 'JE001')
    expect(await run.statuses()).toEqual({ a: 'running', b: 'pending' })
    await complete(db(), held)
    await refused(complete(db(), held), 'JE001')
    expect(await run.statuses()).toEqual({ a: 'completed', b: 'queued' })
  })

  it('a task whose worker died is tried again, and counts once', async () => {
    const workflow = await publish(db(), { a: {}, b: { after: ['a'] } })
    const run = await start(db(), workflow)
    const lost = await claimOne(db(), typeOf(workflow, 'a'), 'doomed')
    await db().query(
      `update fencepost_private.worker set status = 'lost', ended_at = clock_timestamp() where name = 'doomed'`,
    )
    await one(db(), 'select fencepost_private.reclaim()')
    expect(await run.statuses()).toEqual({ a: 'queued', b: 'pending' })
    await refused(complete(db(), lost), 'JE001')
    await run.complete('a')
    expect(await run.statuses()).toEqual({ a: 'completed', b: 'queued' })
    expect(await kinds(db(), lost.job_id)).toEqual(['job.retry_scheduled', 'job.completed'])
  })
})
