import { afterEach, describe, expect, it } from 'vitest'
import { complete } from '../support/engine.ts'
import {
  begin,
  drain,
  expectSound,
  publish,
  type Run,
  start,
  type TaskSpec,
} from '../support/runs.ts'
import { ownDatabase } from '../support/server.ts'
import { column, one, refused } from '../support/sql.ts'

const database = ownDatabase()
const db = () => database.db
afterEach(() => expectSound(db()))

interface Change {
  readonly task: string
  readonly change: string
}
const migrate = (run: Run, to: number, dryRun = false) =>
  db().query<Change>('select * from fencepost.migrate_run($1, $2, $3)', [run.id, to, dryRun])

/** A run of the first version of a workflow that has a second one. */
async function twoVersions(
  first: Record<string, TaskSpec>,
  second: Record<string, TaskSpec>,
  input: unknown = {},
): Promise<Run> {
  const workflow = await publish(db(), first)
  await publish(db(), second, {}, workflow)
  return start(db(), workflow, input, { version: 1 })
}

describe('migrate_run', () => {
  it('is refused where a task that has begun is gone', async () => {
    const run = await twoVersions(
      { a: {}, b: { after: ['a'] }, gone: { after: ['a'] }, end: { after: ['b', 'gone'] } },
      {
        zero: {},
        a: {},
        fresh: { after: ['a', 'zero'] },
        b: { after: ['fresh'] },
        end: { after: ['b'], priority: 9 },
      },
    )
    await run.complete('a', 'A')
    const job = await run.claim('b').catch(() => undefined)
    if (job !== undefined)
      await one(db(), 'select fencepost.release($1, $2)', [job.job_id, job.token])
    await run.call('pause_run')
    expect(job).toBeDefined()
    const refusal = await refused(migrate(run, 2), 'JE004')
    expect(refusal.message).toContain('gone')
  })

  it('adds, drops and changes what has not begun, and goes on; a dry run only tells', async () => {
    const run = await twoVersions(
      { a: {}, b: { after: ['a'] }, gone: { after: ['b'] }, end: { after: ['gone'] } },
      {
        zero: {},
        a: {},
        fresh: { after: ['a', 'zero'] },
        b: { after: ['a'] },
        end: { after: ['b', 'fresh'], priority: 9, timeout: '1 min' },
      },
    )
    await run.complete('a', 'A')
    const expected = [
      { task: 'end', change: 'changed' },
      { task: 'fresh', change: 'added' },
      { task: 'gone', change: 'dropped' },
      { task: 'zero', change: 'added' },
    ]
    expect(await migrate(run, 2, true)).toEqual(expected)
    expect((await run.row()).version).toBe(1)
    expect(await run.statuses()).toEqual({
      a: 'completed',
      b: 'queued',
      gone: 'pending',
      end: 'pending',
    })

    expect(await migrate(run, 2)).toEqual(expected)
    expect((await run.row()).version).toBe(2)
    expect(await run.statuses()).toEqual({
      zero: 'queued',
      a: 'completed',
      fresh: 'pending',
      b: 'queued',
      end: 'pending',
    })
    expect(await drain(db(), run.workflow, ['b', 'zero', 'fresh', 'end'])).toHaveLength(4)
    expect(await run.status()).toBe('completed')
    expect(await run.events()).toEqual(['run.started', 'run.migrated', 'run.completed'])
  })

  it('lets a task start whose last parent is gone', async () => {
    const run = await twoVersions(
      { a: {}, gate: { after: ['a'] }, b: { after: ['a', 'gate'] } },
      { a: {}, b: { after: ['a'] } },
    )
    const job = await run.claim('a')
    expect(await migrate(run, 2)).toEqual([
      { task: 'b', change: 'changed' },
      { task: 'gate', change: 'dropped' },
    ])
    await complete(db(), job)
    expect(await run.statuses()).toEqual({ a: 'completed', b: 'queued' })
  })

  it('completes a run whose remaining tasks are gone', async () => {
    const run = await twoVersions(
      { a: {}, b: { kind: 'timer', delay: '1 day', after: ['a'] }, c: { after: ['b'] } },
      { a: {}, b: { kind: 'timer', delay: '1 day', after: ['a'] } },
    )
    await run.complete('a')
    await migrate(run, 2)
    expect(await run.statuses()).toEqual({ a: 'completed', b: 'waiting' })
  })

  it('takes its gates along, or away with their task', async () => {
    const run = await twoVersions(
      { a: {}, b: { after: ['a'] }, c: { after: ['a'] } },
      { x: {}, a: {}, b: { after: ['a'] } },
    )
    for (const task of ['b', 'c'])
      await one(db(), 'select fencepost.request_approval($1)', [(await run.task(task)).id])
    await migrate(run, 2)
    await expectSound(db())
    await run.complete('a')
    expect(await run.statuses()).toMatchObject({ b: 'pending' })
    expect(
      await column(db(), 'select task from fencepost.approvals where run_id = $1', [run.id]),
    ).toEqual(['b'])
    await one(db(), 'select fencepost.approve($1)', [await run.approval('b')])
    expect(await run.statuses()).toMatchObject({ b: 'queued' })
  })

  it('keeps what is under way: items, skips, failures, and their replay', async () => {
    const run = await twoVersions(
      {
        m: { kind: 'map', over: '$.input.list' },
        no: { when: 'false == true' },
        bad: {},
        end: { after: ['m', 'no', 'bad'] },
      },
      {
        first: {},
        bad: {},
        no: { when: 'false == true' },
        m: { kind: 'map', over: '$.input.list', after: ['first'] },
        end: { after: ['no', 'bad', 'm', 'first'] },
      },
      { list: [1, 2] },
    )
    await run.complete('m')
    await run.bury('bad')
    await migrate(run, 2)
    await expectSound(db())
    expect(await run.row()).toMatchObject({ status: 'failed', failed_tasks: 1 })
    await run.complete('m')
    await run.complete('first')
    await run.call('retry_run')
    await run.complete('bad')
    expect(await run.statuses()).toEqual({
      first: 'completed',
      bad: 'completed',
      no: 'skipped',
      m: 'completed',
      end: 'queued',
    })
  })

  it('a changed policy holds for what ends from then on', async () => {
    const run = await twoVersions(
      { a: {}, b: {}, end: { after: ['a', 'b'] } },
      { a: { on_failure: 'continue' }, b: { on_failure: 'continue' }, end: { after: ['a', 'b'] } },
    )
    await run.bury('a')
    await migrate(run, 2)
    await run.bury('b')
    expect(await run.row()).toMatchObject({ status: 'failed', failed_tasks: 1, ended_tasks: 1 })
    await run.call('retry_run')
    await run.bury('a')
    await expectSound(db())
    expect(await run.statuses()).toMatchObject({ b: 'queued', end: 'queued' })
    await run.bury('b')
    await run.call('retry_run')
    await migrate(run, 1)
    await run.bury('a')
    await run.bury('b')
    await expectSound(db())
  })

  it('is refused for another kind or type of what has begun, for ended runs, and without the version', async () => {
    const run = await twoVersions(
      { a: {}, b: { after: ['a'] } },
      { a: { type: 'another.type' }, b: { after: ['a'] } },
    )
    expect((await refused(migrate(run, 2), 'JE004')).message).toContain('another kind')
    await refused(migrate(run, 3), 'JE002')
    await refused(one(db(), 'select fencepost.migrate_run(0, 1)'), 'JE002')
    expect(await migrate(run, 1)).toEqual([])
    await run.call('cancel_run')
    await refused(migrate(run, 2), 'JE004')
    const saga = await begin(db(), { a: {} }, {}, { on_failure: 'compensate' })
    await saga.bury('a')
    await refused(migrate(saga, 1), 'JE004')
  })

  it('is refused without a version, and where the input does not fit its schema', async () => {
    const workflow = await publish(db(), { a: {} })
    const run = await start(db(), workflow, { n: 'seven' })
    const input = { properties: { n: { type: 'number' } } }
    await publish(db(), { a: {}, b: {} }, { input }, workflow)
    await refused(one(db(), 'select fencepost.migrate_run($1, null)', [run.id]), 'JE003')
    for (const dry of [true, false]) {
      const { message, detail } = await refused(
        one(db(), 'select fencepost.migrate_run($1, 2, $2)', [run.id, dry]),
        'JE003',
      )
      expect(message).toContain('does not fit the schema of version 2')
      expect(detail).toContain('n')
    }
    expect((await run.row()).version).toBe(1)
  })

  it('a kind may change as long as the task has not begun', async () => {
    const run = await twoVersions(
      { a: {}, b: { after: ['a'] } },
      { a: {}, b: { kind: 'approval', after: ['a'] } },
    )
    await migrate(run, 2)
    await run.complete('a')
    expect(await run.task('b')).toMatchObject({ kind: 'approval', status: 'waiting' })
  })
})

it('a new version while 1,000 runs are half-way: each ends on its own', async () => {
  const workflow = await publish(db(), { a: {}, b: { after: ['a'] } })
  await one(
    db(),
    `select cardinality(fencepost.start_runs($1, array_fill('{}'::jsonb, array[1000])))`,
    [workflow],
  )
  const finish = `with claimed as materialized (select job_id, token from fencepost.claim('w', $1, 1000))
                  select count(*)::int from fencepost.complete_many((select array_agg(job_id) from claimed), (select array_agg(token) from claimed))`
  expect(await one(db(), finish, [[`${workflow}.a`]])).toBe(1000)
  await publish(db(), { a: {}, c: { after: ['a'] } }, {}, workflow)
  const late = await start(db(), workflow)
  expect(await one(db(), finish, [[`${workflow}.b`]])).toBe(1000)
  await late.complete('a')
  await late.complete('c')
  expect(
    await db().query(
      'select version, status, count(*)::int as runs from fencepost.runs where workflow = $1 group by 1, 2 order by 1',
      [workflow],
    ),
  ).toEqual([
    { version: 1, status: 'completed', runs: 1000 },
    { version: 2, status: 'completed', runs: 1 },
  ])
})
