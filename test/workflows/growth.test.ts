import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { expectSound, publish, Run, start, type TaskSpec, typeOf } from '../support/runs.ts'
import { ownDatabase } from '../support/server.ts'
import { Session } from '../support/sessions.ts'
import { column, one } from '../support/sql.ts'

// What a task costs does not depend on how many others its run has, nor on how many runs there are. Costs are counted,
// so the machine's moods do not matter.

const database = ownDatabase()
const db = () => database.db
let worker: Session
let id: number
beforeAll(async () => {
  worker = await Session.open(database.url)
  id = await one<number>(db(), `select fencepost.register_worker('counted')`)
})
afterAll(async () => {
  await worker[Symbol.asyncDispose]()
})
afterEach(() => expectSound(db()))

interface Cost {
  buffers: number
  rows: number
  calls: number
}

/** Runs a statement in a transaction of its own and counts what it took: pages, rows written, functions called. */
async function cost(text: string, params: readonly unknown[]): Promise<Cost> {
  await worker.begin()
  const before = await counters()
  const [plan] = await worker.query<{ 'QUERY PLAN': [{ Plan: Record<string, number> }] }>(
    `explain (analyze, buffers, timing off, format json) ${text}`,
    params,
  )
  const after = await counters()
  await worker.commit()
  const root = plan?.['QUERY PLAN'][0].Plan ?? {}
  return {
    buffers: (root['Shared Hit Blocks'] ?? 0) + (root['Shared Read Blocks'] ?? 0),
    rows: after.rows - before.rows,
    calls: after.calls - before.calls,
  }
}

/** Rows written and functions called by the worker's session since it last reported. */
async function counters(): Promise<{ rows: number; calls: number }> {
  const [row] = await worker.query<{ rows: number; calls: number }>(
    `select (select sum(n_tup_ins + n_tup_upd + n_tup_del)::int from pg_stat_xact_all_tables where schemaname = 'fencepost_private') as rows,
            (select sum(calls)::int from pg_stat_xact_user_functions where schemaname = 'fencepost_private') as calls`,
  )
  return row ?? { rows: 0, calls: 0 }
}

/** Works off all jobs of a type in rounds of at most `batch`; the cost of each job. */
async function costPerJob(type: string, batch: number): Promise<Cost & { jobs: number }> {
  const sum = { buffers: 0, rows: 0, calls: 0, jobs: 0 }
  for (;;) {
    const held = await worker.query<{ id: number; token: number }>(
      'select id, token from fencepost_private.lease',
    )
    const round = await cost(
      'select * from fencepost.exchange($1, $2, $3, $4, types => $5, max => $6)',
      [
        id,
        held.map((job) => job.id),
        held.map((job) => job.token),
        held.map(() => '1'),
        [type],
        batch,
      ],
    )
    sum.buffers += round.buffers
    sum.rows += round.rows
    sum.calls += round.calls
    sum.jobs += held.length
    const waiting = await worker.query('select from fencepost_private.lease limit 1')
    if (waiting.length === 0) break
  }
  return {
    buffers: sum.buffers / sum.jobs,
    rows: sum.rows / sum.jobs,
    calls: sum.calls / sum.jobs,
    jobs: sum.jobs,
  }
}

function expectNoMore(large: Cost, small: Cost): void {
  expect(large.buffers, 'buffers').toBeLessThan(1.5 * small.buffers)
  expect(large.rows, 'rows written').toBeLessThan(1.5 * small.rows)
  expect(large.calls, 'functions called').toBeLessThan(1.5 * small.calls)
}

const list = (n: number) =>
  Array.from({ length: n }, (_, index) => ({ index, text: 'some element of a list' }))

describe('10,000 cost no more apiece than 100', () => {
  it.each([
    ['items of a map', {}, 50],
    ['items of a map that runs 50 at a time', { max_parallel: 50 }, 50],
    ['items of a map that runs 50 at a time, each done by itself', { max_parallel: 50 }, 1],
    [
      'items with a payload of their own, built from the input that holds the list',
      { max_parallel: 50, input: { element: '$.item', who: '$.input.who', n: '$.index' } },
      50,
    ],
  ] as [string, TaskSpec, number][])(
    '%s',
    async (_, spec, batch) => {
      const workflow = await publish(db(), {
        m: { kind: 'map', over: '$.input.list', ...spec },
        end: { after: ['m'] },
      })
      const costs: [Cost, Cost][] = []
      for (const n of [100, batch === 1 ? 500 : 10000]) {
        const begun = await cost('select fencepost.start_run($1, $2)', [
          workflow,
          JSON.stringify({ who: 'me', list: list(n) }),
        ])
        const done = await costPerJob(typeOf(workflow, 'm'), batch)
        expect(done.jobs).toBe(n)
        costs.push([
          { buffers: begun.buffers / n, rows: begun.rows / n, calls: begun.calls / n },
          done,
        ])
      }
      const [small, large] = costs
      if (small === undefined || large === undefined) throw new Error('two sizes are measured')
      expectNoMore(large[0], small[0])
      expectNoMore(large[1], small[1])
      expect(
        await column(
          db(),
          `select distinct status from fencepost.tasks where name = 'm' and run_id in (select id from fencepost.runs where workflow = $1)`,
          [workflow],
        ),
      ).toEqual(['completed'])
    },
    120_000,
  )

  it.each([
    ['tasks side by side, and the one that waits for all', () => ({})],
    [
      'tasks side by side, each with a condition and an input',
      (n: number) => ({ when: '$.input.n > 0', input: { n } }),
    ],
    [
      'tasks in pairs',
      (n: number) =>
        n % 2 === 0 ? {} : { after: [`t${n - 1}`], input: { before: `$.tasks.t${n - 1}` } },
    ],
  ] as [string, (n: number) => TaskSpec][])(
    '%s',
    async (_, spec) => {
      const costs: [Cost, Cost][] = []
      for (const count of [100, 10000]) {
        const names = Array.from({ length: count - 1 }, (__, n) => `t${n}`)
        const type = `fan.${Date.now()}.${count}`
        const workflow = await publish(db(), {
          ...Object.fromEntries(names.map((name, n) => [name, { type, ...spec(n) }])),
          end: { after: names, input: {} },
        })
        const begun = await cost('select fencepost.start_run($1, $2)', [workflow, '{"n": 1}'])
        const done = await costPerJob(type, 50)
        expect(done.jobs).toBe(count - 1)
        const [run] = await column<number>(
          db(),
          'select id from fencepost.runs where workflow = $1',
          [workflow],
        )
        await new Run(db(), Number(run), workflow).complete('end')
        expect(await new Run(db(), Number(run), workflow).status()).toBe('completed')
        costs.push([
          { buffers: begun.buffers / count, rows: begun.rows / count, calls: begun.calls / count },
          done,
        ])
      }
      const [small, large] = costs
      if (small === undefined || large === undefined) throw new Error('two sizes are measured')
      expectNoMore(large[0], small[0])
      expectNoMore(large[1], small[1])
    },
    120_000,
  )
})

it('a run is paused, retried and cancelled in a time that depends on its own tasks alone', async () => {
  const workflow = await publish(db(), { a: {}, m: { kind: 'map', over: '$.input.list' } })
  const calls = ['pause_run', 'resume_run', 'retry_run', 'cancel_run']
  for (const isFirst of [true, false]) {
    const run = await start(db(), workflow, { list: [1, 2, 3] })
    for (const call of calls) {
      if (call === 'retry_run') await run.bury('a')
      const { buffers } = await cost(`select fencepost.${call}($1)`, [run.id])
      if (!isFirst) expect(buffers, call).toBeLessThan(500) // the first one plans
    }
  }
})
