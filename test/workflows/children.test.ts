import { afterEach, describe, expect, it } from 'vitest'
import { complete } from '../support/engine.ts'
import {
  begin,
  drain,
  expectSound,
  publish,
  publishRaw,
  type Run,
  start,
  type TaskSpec,
} from '../support/runs.ts'
import { ownDatabase } from '../support/server.ts'
import { column, one, refused } from '../support/sql.ts'

const database = ownDatabase()
const db = () => database.db
afterEach(() => expectSound(db()))

/** A run whose task `call` is carried out by a run of these tasks. */
async function nested(
  tasks: Record<string, TaskSpec>,
  rest: Record<string, unknown> = {},
  spec: TaskSpec = {},
): Promise<{ run: Run; inner: Run }> {
  const workflow = await publish(db(), tasks, rest)
  const run = await begin(
    db(),
    { call: { kind: 'workflow', workflow, ...spec }, end: { after: ['call'] } },
    { n: 1 },
  )
  return { run, inner: await run.child('call', workflow) }
}

const replay = (id: number) => one(db(), 'select fencepost.replay_task($1)', [id])

describe('a child run', () => {
  it('carries out its task: input down, output up', async () => {
    const workflow = await publish(db(), { a: {} })
    const outer = await publish(db(), {
      call: { kind: 'workflow', workflow, input: { order: '$.input.id' } },
      end: { after: ['call'] },
    })
    const run = await start(db(), outer, { id: 9 }, { priority: 7, tags: ['x'], tenant: 'acme' })
    const inner = await run.child('call', workflow)
    expect(await run.row()).toMatchObject({ status: 'waiting', root_run_id: run.id })
    expect(await inner.row()).toMatchObject({
      workflow,
      input: { order: 9 },
      status: 'running',
      parent_run_id: run.id,
      parent_task_id: (await run.task('call')).id,
      root_run_id: run.id,
      priority: 7,
      tags: ['x'],
      tenant: 'acme',
    })
    const job = await inner.claim('a')
    expect(job).toMatchObject({ priority: 7, payload: { input: { order: 9 }, tasks: {} } })
    await complete(db(), job, 'done')
    expect(await run.task('call')).toMatchObject({ status: 'completed', output: { a: 'done' } })
    expect((await run.claim('end')).payload).toMatchObject({ tasks: { call: { a: 'done' } } })
  })

  it('without input gets the input of the run and the outputs of the parents', async () => {
    const { inner } = await nested({ a: {} })
    expect((await inner.row()).input).toEqual({ input: { n: 1 }, tasks: {} })
  })

  it('that has nothing to do ends at once, and so does its parent', async () => {
    const skip = { when: 'false == true' }
    const { run, inner } = await nested({ a: skip, b: { after: ['a'] } })
    expect(await inner.status()).toBe('completed')
    expect(await run.statuses()).toEqual({ call: 'completed', end: 'queued' })
    expect(await run.events()).toEqual(['run.started'])
  })

  it('takes the version that is named, else the latest when it starts', async () => {
    const workflow = await publish(db(), { a: {} })
    await publish(db(), { b: {} }, {}, workflow)
    const run = await begin(db(), {
      first: { kind: 'workflow', workflow, version: 1 },
      late: { kind: 'workflow', workflow },
      none: { kind: 'workflow', workflow, version: 9 },
    })
    expect(Object.keys(await (await run.child('first', workflow)).statuses())).toEqual(['a'])
    expect(Object.keys(await (await run.child('late', workflow)).statuses())).toEqual(['b'])
    expect((await run.task('none')).error).toBe(
      `JE002: workflow ${workflow} version 9 does not exist`,
    )
  })

  it('whose schema refuses the input fails its task', async () => {
    const workflow = await publish(db(), { a: {} }, { input: { required: ['x'] } })
    const run = await begin(db(), { call: { kind: 'workflow', workflow } })
    expect(await run.task('call')).toMatchObject({
      status: 'failed',
      error: 'JE003: input.x is required',
      child_run_id: null,
    })
  })

  it('of children: four levels deep, all one family', async () => {
    let workflow = await publish(db(), { a: {} })
    const innermost = workflow
    for (let level = 0; level < 3; level++)
      workflow = await publish(db(), { call: { kind: 'workflow', workflow } })
    const run = await start(db(), workflow)
    const roots = await column<number>(
      db(),
      'select distinct root_run_id from fencepost.runs where root_run_id = $1',
      [run.id],
    )
    expect(roots).toEqual([run.id])
    await drain(db(), innermost, ['a'])
    expect(await run.status()).toBe('completed')
  })

  it('that starts itself is stopped at twenty levels, without stopping anybody', async () => {
    const workflow = `loop.${Date.now()}`
    await publishRaw(db(), workflow, { tasks: { again: { kind: 'workflow', workflow } } })
    const run = await start(db(), workflow)
    expect(await run.status()).toBe('failed')
    expect(
      await one(db(), 'select count(*)::int from fencepost.runs where root_run_id = $1', [run.id]),
    ).toBe(21)
    expect(
      await column(
        db(),
        `select error from fencepost.tasks where run_id in (select id from fencepost.runs where root_run_id = $1) and error like 'JE003%'`,
        [run.id],
      ),
    ).toEqual(['JE003: child runs are nested at most 20 deep'])
  })
})

describe('a child run that fails', () => {
  it('fails its task; a replay inside brings both back', async () => {
    const { run, inner } = await nested({ a: {}, b: { after: ['a'] } })
    await inner.bury('a')
    expect(await run.task('call')).toMatchObject({
      status: 'failed',
      error: `child run ${inner.id} ended as failed`,
    })
    expect(await run.status()).toBe('failed')
    await replay((await inner.task('a')).id)
    expect(await run.row()).toMatchObject({ status: 'waiting', finished_at: null })
    expect(await inner.status()).toBe('running')
    await inner.complete('a')
    await inner.complete('b')
    expect(await run.statuses()).toEqual({ call: 'completed', end: 'queued' })
  })

  it('is replayed from outside, through its task or its run', async () => {
    for (const how of ['task', 'run']) {
      const { run, inner } = await nested(
        { m: { kind: 'map', over: '$.input.list' } },
        {},
        { input: { list: [1, 2] } },
      )
      await inner.bury('m')
      await inner.bury('m')
      expect(await run.status()).toBe('failed')
      if (how === 'task') await replay((await run.task('call')).id)
      else expect(await run.call('retry_run')).toBe(2)
      await expectSound(db())
      await drain(db(), inner.workflow, ['m'])
      expect(await run.statuses()).toEqual({ call: 'completed', end: 'queued' })
    }
  })

  it('brings back all runs around it, and only as far as they were failed by it', async () => {
    const innermost = await publish(db(), { a: {} })
    const middle = await publish(db(), {
      call: { kind: 'workflow', workflow: innermost },
      other: {},
    })
    const run = await begin(db(), { call: { kind: 'workflow', workflow: middle } })
    const mid = await run.child('call', middle)
    const inner = await mid.child('call', innermost)
    await inner.bury('a')
    await mid.bury('other')
    expect([await run.status(), await mid.status(), await inner.status()]).toEqual([
      'failed',
      'failed',
      'failed',
    ])

    await replay((await inner.task('a')).id)
    await expectSound(db())
    await inner.complete('a')
    expect([await run.status(), await mid.status(), await inner.status()]).toEqual([
      'failed',
      'failed',
      'completed',
    ])
    await replay((await mid.task('other')).id)
    expect([await run.status(), await mid.status()]).toEqual(['waiting', 'running'])
    await mid.complete('other')
    expect(await run.status()).toBe('completed')
  })

  it('ends its task only when nothing of it runs any more', async () => {
    const { run, inner } = await nested({ a: {}, b: {} })
    const job = await inner.claim('b')
    await inner.bury('a')
    expect(await inner.status()).toBe('failed')
    expect(await run.statuses()).toEqual({ call: 'waiting', end: 'pending' })
    await complete(db(), job)
    expect(await run.statuses()).toEqual({ call: 'failed', end: 'pending' })
  })

  it('fails it although something in it still waits, which can come yet', async () => {
    const { run, inner } = await nested({ a: {}, s: { kind: 'signal', signal: 's' } })
    await inner.bury('a')
    expect(await run.status()).toBe('failed')
    await inner.call('signal_run', 's')
    await inner.call('retry_run')
    await inner.complete('a')
    expect(await run.statuses()).toEqual({ call: 'completed', end: 'queued' })
  })

  it('with on_failure continue: the run around goes on, a replay later is heard by nobody', async () => {
    const { run, inner } = await nested({ a: {} }, {}, { on_failure: 'continue' })
    await inner.bury('a')
    expect(await run.statuses()).toEqual({ call: 'failed', end: 'queued' })
    await replay((await inner.task('a')).id)
    await expectSound(db())
    await run.complete('end')
    expect(await run.status()).toBe('waiting')
    await inner.complete('a')
    expect(await run.statuses()).toEqual({ call: 'completed', end: 'completed' })
    expect(await run.status()).toBe('completed')
  })
})

describe('a family', () => {
  it('is cancelled from outside in', async () => {
    const { run, inner } = await nested({ a: {}, b: {} })
    const job = await inner.claim('a')
    await run.call('cancel_run', 'enough')
    expect(await inner.row()).toMatchObject({
      status: 'cancelled',
      reason: 'enough',
      finished_at: null,
    })
    expect(await inner.statuses()).toEqual({ a: 'running', b: 'cancelled' })
    expect(await run.row()).toMatchObject({ status: 'cancelled', finished_at: expect.any(Date) })
    await complete(db(), job)
    expect((await inner.row()).finished_at).not.toBeNull()
    expect(await run.statuses()).toEqual({ call: 'cancelled', end: 'cancelled' })
  })

  it('a child that is cancelled alone fails its task once nothing of it runs', async () => {
    const { run, inner } = await nested({ a: {} })
    const job = await inner.claim('a')
    await inner.call('cancel_run')
    expect(await run.status()).toBe('waiting')
    await complete(db(), job)
    expect(await run.task('call')).toMatchObject({
      status: 'failed',
      error: `child run ${inner.id} ended as cancelled`,
    })
    await refused(replay((await run.task('call')).id), 'JE004')
  })

  it('is paused and resumed as one', async () => {
    const { run, inner } = await nested({ a: {}, b: { after: ['a'] } })
    await run.call('pause_run')
    expect([await run.status(), await inner.status()]).toEqual(['paused', 'paused'])
    expect(await inner.claimAll('a')).toEqual([])
    await run.call('resume_run')
    expect([await run.status(), await inner.status()]).toEqual(['waiting', 'running'])
    expect(await drain(db(), inner.workflow, ['a', 'b'])).toEqual(['a', 'b'])
    expect(await run.statuses()).toEqual({ call: 'completed', end: 'queued' })
  })

  it('a child that is paused alone holds the run around it', async () => {
    const { run, inner } = await nested({ a: {} })
    const job = await inner.claim('a')
    await inner.call('pause_run')
    await complete(db(), job)
    expect([await run.status(), await inner.status()]).toEqual(['waiting', 'paused'])
    await inner.call('resume_run')
    expect(await run.statuses()).toEqual({ call: 'completed', end: 'queued' })
  })

  it('nothing in it is replayed once a run around was cancelled', async () => {
    const { run, inner } = await nested({ a: {} })
    await inner.bury('a')
    await run.call('cancel_run')
    await refused(replay((await inner.task('a')).id), 'JE004')
    await refused(
      one(db(), 'select fencepost.replay($1)', [(await inner.task('a')).job_id]),
      'JE004',
    )
  })
})
