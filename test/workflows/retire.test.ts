import { afterEach, describe, expect, it } from 'vitest'
import { moveClock } from '../support/clock.ts'
import { maintain, settings } from '../support/engine.ts'
import { begin, drain, expectSound, publish, type Run, start, typeOf } from '../support/runs.ts'
import { ownDatabase } from '../support/server.ts'
import { Session } from '../support/sessions.ts'
import { column, one, refused } from '../support/sql.ts'

const database = ownDatabase()
const db = () => database.db
afterEach(() => expectSound(db())) // and the clock goes on from where it is

/** Those of these runs that are still there. */
async function left(...runs: Run[]): Promise<number[]> {
  return column<number>(db(), 'select id from fencepost.runs where id = any ($1) order by id', [
    runs.map(({ id }) => id),
  ])
}

/** How many rows name this run, by table. */
async function rows(run: Run): Promise<Record<string, number>> {
  const [counts] = await db().query<Record<string, number>>(
    `select (select count(*)::int from fencepost_private.task where run_id = $1) as tasks,
            (select count(*)::int from fencepost_private.approval where run_id = $1) as approvals,
            (select count(*)::int from fencepost_private.signal where run_id = $1) as signals`,
    [run.id],
  )
  return counts ?? {}
}

const configure = (workflow: string, keep: string | null) =>
  one(db(), 'select fencepost.configure_workflow($1, keep_finished => $2)', [workflow, keep])

describe('finished runs', () => {
  it('go after seven days, with all that is theirs', async () => {
    const workflow = await publish(db(), {
      a: {},
      ok: { kind: 'approval', after: ['a'] },
      s: { kind: 'signal', signal: 's', after: ['ok'] },
      m: { kind: 'map', over: '$.input.list', after: ['s'] },
    })
    const run = await start(db(), workflow, { list: [1, 2] }, { idempotency_key: 'k' })
    await run.complete('a')
    await one(db(), 'select fencepost.approve($1)', [await run.approval('ok')])
    await run.call('signal_run', 's')
    await drain(db(), workflow, ['m'])
    expect(await run.status()).toBe('completed')
    await moveClock(db(), '6 days')
    await maintain(db())
    expect(await rows(run)).toEqual({ tasks: 6, approvals: 1, signals: 1 })
    await moveClock(db(), '2 days')
    await maintain(db())
    expect(await left(run)).toEqual([])
    expect(await rows(run)).toEqual({ tasks: 0, approvals: 0, signals: 0 })
    await refused(run.call('restart_run'), 'JE002')
    const again = await start(db(), workflow, { list: [] }, { idempotency_key: 'k' })
    expect(again.id).toBeGreaterThan(run.id)
  })

  it('are kept as long as their workflow says', async () => {
    const [short, long] = [await begin(db(), { a: {} }), await begin(db(), { a: {} })]
    await configure(short.workflow, '1 hour')
    await configure(long.workflow, '30 days')
    for (const run of [short, long]) await run.complete('a')
    await moveClock(db(), '2 hours')
    await maintain(db())
    expect(await left(short, long)).toEqual([long.id])
    await moveClock(db(), '29 days')
    await maintain(db())
    expect(await left(long)).toEqual([long.id])
    await moveClock(db(), '2 days')
    await maintain(db())
    expect(await left(long)).toEqual([])
  })

  it.each(['before', 'after'])('go when their jobs are removed %s them', async (order) => {
    const run = await begin(db(), { a: {}, b: { after: ['a'] } })
    const keep = order === 'before' ? '1 hour' : '1 year'
    await settings(db(), typeOf(run.workflow, 'a'), { keep_finished: keep })
    await run.complete('a', 'A')
    const { job_id: job } = await run.task('a')
    await run.complete('b')
    await moveClock(db(), '1 day')
    await maintain(db())
    expect(await run.task('a')).toMatchObject({ status: 'completed', output: 'A' })
    expect(await db().query('select from fencepost.jobs where id = $1', [job])).toHaveLength(
      order === 'before' ? 0 : 1,
    )
    await expectSound(db())
    await moveClock(db(), '8 days')
    await maintain(db())
    expect(await left(run)).toEqual([])
    expect(await db().query('select from fencepost.jobs where id = $1', [job])).toHaveLength(
      order === 'before' ? 0 : 1,
    )
  })
})

describe('a family of runs', () => {
  it('goes whole, once the last of it has ended long enough ago', async () => {
    const inner = await publish(db(), { x: {} })
    const run = await begin(db(), { call: { kind: 'workflow', workflow: inner }, a: {} })
    const child = await run.child('call', inner)
    await child.complete('x')
    await moveClock(db(), '10 days')
    await maintain(db())
    expect(await left(run, child)).toEqual([run.id, child.id])
    await run.complete('a')
    await moveClock(db(), '8 days')
    await maintain(db())
    expect(await left(run, child)).toEqual([])
  })

  it('waits for what still runs inside of a cancelled run', async () => {
    const inner = await publish(db(), { x: {} })
    const run = await begin(db(), { call: { kind: 'workflow', workflow: inner } })
    const child = await run.child('call', inner)
    const job = await child.claim('x')
    await run.call('cancel_run')
    await moveClock(db(), '1 year')
    await one(db(), 'select fencepost_private.retire_runs()')
    expect(await left(run, child)).toEqual([run.id, child.id])
    await one(db(), 'select fencepost.release($1, $2)', [job.job_id, job.token])
    await moveClock(db(), '8 days')
    await maintain(db())
    expect(await left(run, child)).toEqual([])
  })
})

describe('a run that failed', () => {
  it('is kept until it is retried', async () => {
    const run = await begin(db(), { a: {} })
    await run.bury('a')
    await moveClock(db(), '1 year')
    await maintain(db())
    expect(await left(run)).toEqual([run.id])
    await run.call('retry_run')
    await run.complete('a')
    await moveClock(db(), '8 days')
    await maintain(db())
    expect(await left(run)).toEqual([])
  })

  it('is kept until it is cancelled, and then takes its dead letters along', async () => {
    const run = await begin(db(), { a: {} })
    await run.bury('a')
    const { job_id: job } = await run.task('a')
    await run.call('cancel_run')
    await moveClock(db(), '8 days')
    await maintain(db())
    expect(await left(run)).toEqual([])
    expect(await db().query('select status from fencepost.jobs where id = $1', [job])).toEqual([
      { status: 'discarded' },
    ])
  })

  it('and undid what it had done takes its dead letter along', async () => {
    const run = await begin(
      db(),
      { a: { compensate: 'undo.retired' }, b: { after: ['a'] } },
      {},
      { on_failure: 'compensate' },
    )
    await run.complete('a')
    await run.bury('b')
    await db().query(
      `select fencepost.complete(job_id, token) from fencepost.claim('w', array['undo.retired'])`,
    )
    expect(await run.status()).toBe('compensated')
    await moveClock(db(), '8 days')
    await maintain(db())
    expect(await left(run)).toEqual([])
  })

  it.each(['replayed', 'discarded'])(
    'in a task, and went on, is kept until the dead letter is %s',
    async (verdict) => {
      const run = await begin(db(), { a: { on_failure: 'continue' }, b: { after: ['a'] } })
      await run.bury('a')
      await run.complete('b')
      expect(await run.status()).toBe('completed')
      await moveClock(db(), '1 year')
      await maintain(db())
      expect(await left(run)).toEqual([run.id])
      const { job_id: job } = await run.task('a')
      if (verdict === 'discarded') {
        await one(db(), 'select fencepost.discard($1)', [job])
      } else {
        await one(db(), 'select fencepost.replay($1)', [job])
        await run.complete('a')
      }
      await moveClock(db(), '8 days')
      await maintain(db())
      expect(await left(run)).toEqual([])
    },
  )
})

describe('retire_runs', () => {
  it('works in bounded passes, by runs and by tasks', async () => {
    const workflow = await publish(db(), { m: { kind: 'map', over: '$.input.list' } })
    const runs: Run[] = []
    for (let n = 0; n < 6; n++) runs.push(await start(db(), workflow, { list: [1, 2, 3] }))
    const stuck = await start(db(), workflow, { list: [1] })
    await db().query(
      `select fencepost.complete_many(array_agg(job_id), array_agg(token)) from fencepost.claim('w', $1, 18)`,
      [[typeOf(workflow, 'm')]],
    )
    await moveClock(db(), '1 year')
    const pass = () => one<number>(db(), 'select fencepost_private.retire_runs(1000, 8)')
    expect([await pass(), await pass(), await pass(), await pass()]).toEqual([2, 2, 2, 0])
    expect(await left(...runs, stuck)).toEqual([stuck.id])
    expect(
      await one(
        db(),
        `select position from fencepost_private.maintain_step where step = 'retire_runs'`,
      ),
    ).toBe(0)
  })

  it('makes who waits see that the run is gone, and lets its key start another', async () => {
    const workflow = await publish(db(), { a: { on_failure: 'continue' } })
    const run = await start(db(), workflow, {}, { idempotency_key: 'again' })
    await run.bury('a')
    const { job_id: job } = await run.task('a')
    await one(db(), 'select fencepost.discard($1)', [job])
    await moveClock(db(), '8 days')
    await using retiring = await Session.open(database.url)
    await using starting = await Session.open(database.url)
    await using restarting = await Session.open(database.url)
    await retiring.begin()
    await retiring.query('select fencepost_private.retire_runs()')
    const again = await starting.blocks<{ id: number }>(
      `select fencepost.start_run($1, idempotency_key => 'again') as id`,
      [workflow],
    )
    const late = await restarting.blocks('select fencepost.restart_run($1)', [run.id])
    await retiring.commit()
    expect((await again.answer)[0]?.id).toBeGreaterThan(run.id)
    await expect(late.answer).rejects.toMatchObject({ code: 'JE002' })
    expect(await left(run)).toEqual([])
  })

  it('passes over a run that somebody holds', async () => {
    const run = await begin(db(), { a: {} })
    await run.complete('a')
    await moveClock(db(), '8 days')
    await using holder = await Session.open(database.url)
    await holder.begin()
    await holder.query(`select fencepost_private.lock_roots(array[${run.id}])`)
    await maintain(db())
    expect(await left(run)).toEqual([run.id])
    await holder.rollback()
    await moveClock(db(), '2 hours')
    await maintain(db())
    expect(await left(run)).toEqual([])
  })

  it('reads no more under a held snapshot, within a round', async () => {
    const workflow = await publish(db(), { t: { kind: 'timer', until: '$.input.at' } })
    await using reader = await Session.open(database.url)
    await using worker = await Session.open(database.url)
    await reader.begin('repeatable read')
    await reader.query('select 1')
    await one(
      db(),
      `select cardinality(fencepost.start_runs($1, array_fill('{"at": "2000-01-01T00:00:00Z"}'::jsonb, array[3000])))`,
      [workflow],
    )
    await moveClock(db(), '8 days')
    const touched: number[] = []
    for (let n = 0; n < 14; n++) {
      const [plan] = await worker.query<{ 'QUERY PLAN': [{ Plan: Record<string, number> }] }>(
        'explain (analyze, buffers, timing off, format json) select fencepost_private.retire_runs(200)',
      )
      const root = plan?.['QUERY PLAN'][0].Plan ?? {}
      touched.push((root['Shared Hit Blocks'] ?? 0) + (root['Shared Read Blocks'] ?? 0))
    }
    await reader.rollback()
    const [early, late] = [touched.slice(2, 5), touched.slice(-3)].map((each) => Math.max(...each))
    expect(late, `pages: ${touched}`).toBeLessThan(1.25 * Number(early))
  })
})

describe('configure_workflow', () => {
  it('sets how long runs are kept, with an event; null changes nothing', async () => {
    const workflow = await publish(db(), { a: {} })
    const kept = () =>
      one(db(), 'select keep_finished::text from fencepost.workflows where name = $1', [workflow])
    expect(await kept()).toBe('7 days')
    await configure(workflow, '2 days')
    await configure(workflow, null)
    expect(await kept()).toBe('2 days')
    expect(
      await column(
        db(),
        `select data from fencepost_private.event where kind = 'operator.workflow_configured' and data ->> 'workflow' = $1`,
        [workflow],
      ),
    ).toEqual([
      { workflow, before: { keep_finished: '7 days' }, after: { keep_finished: '2 days' } },
    ])
  })

  it('refuses an unknown workflow and a time that is none', async () => {
    const workflow = await publish(db(), { a: {} })
    await refused(configure('nobody.knows', '1 day'), 'JE002')
    await refused(configure(workflow, '-1 day'), 'JE003')
    await refused(configure(workflow, '101 years'), 'JE003')
  })
})
