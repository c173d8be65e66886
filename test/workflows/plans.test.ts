import { afterAll, beforeAll, expect, it } from 'vitest'
import { expectSound, publish, start, typeOf } from '../support/runs.ts'
import { ownDatabase } from '../support/server.ts'
import { Session } from '../support/sessions.ts'
import { one } from '../support/sql.ts'

// Plans are kept by sessions that live long, and the tables grow meanwhile.

const database = ownDatabase()
const db = () => database.db
let worker: Session
let id: number
beforeAll(async () => {
  worker = await Session.open(database.url)
  id = await one<number>(db(), `select fencepost.register_worker('steady')`)
})
afterAll(async () => {
  await worker[Symbol.asyncDispose]()
})

/** The pages that a statement touches. */
async function buffers(text: string, params: readonly unknown[]): Promise<number> {
  const [plan] = await worker.query<{ 'QUERY PLAN': [{ Plan: Record<string, number> }] }>(
    `explain (analyze, buffers, timing off, format json) ${text}`,
    params,
  )
  const root = plan?.['QUERY PLAN'][0].Plan ?? {}
  return (root['Shared Hit Blocks'] ?? 0) + (root['Shared Read Blocks'] ?? 0)
}

it('a plan that was made when there was one run serves when there are 20,000', async () => {
  const workflow = await publish(db(), {
    a: { compensate: 'undo.a' },
    b: { after: ['a'], when: '$.tasks.a == 1' },
    c: { after: ['a', 'b'] },
    m: { kind: 'map', over: '$.input.list', max_parallel: 1, after: ['c'] },
  })
  const tasks = ['a', 'b', 'c', 'm', 'm']

  /** Starts a run and steps it through in the one session; the pages that each step touched. */
  async function stepThrough(): Promise<number[]> {
    const touched = [
      await buffers('select fencepost.start_run($1, $2)', [workflow, '{"list": [1, 2]}']),
    ]
    for (const task of tasks) {
      await worker.query('select from fencepost.exchange($1, types => $2, max => 1)', [
        id,
        [typeOf(workflow, task)],
      ])
      const [held] = await worker.query<{ id: number; token: number }>(
        'select id, token from fencepost_private.lease',
      )
      touched.push(
        await buffers('select * from fencepost.exchange($1, $2, $3, $4)', [
          id,
          [held?.id],
          [held?.token],
          ['1'],
        ]),
      )
    }
    return touched
  }

  await start(db(), workflow, { list: [1, 2] })
  await db().query('vacuum analyze')
  await stepThrough() // makes the plans
  const before = await stepThrough()
  const many = await publish(db(), {
    x: { kind: 'signal', signal: 's' },
    y: { kind: 'approval', after: ['x'] },
    z: {},
  })
  for (let n = 0; n < 10; n++)
    await one(
      db(),
      `select cardinality(fencepost.start_runs($1, array_fill('{}'::jsonb, array[2000])))`,
      [many],
    )
  const after = await stepThrough()
  for (const [index, pages] of after.entries()) {
    expect(
      pages,
      `step ${index} of ${['start', ...tasks]}: ${before} pages became ${after}`,
    ).toBeLessThan(2 * Number(before[index]))
  }
  expect(
    await one(
      db(),
      `select count(*)::int from fencepost.runs where workflow = $1 and status = 'completed'`,
      [workflow],
    ),
  ).toBe(3)
  await db().query('analyze')
  await expectSound(db())
}, 120_000)
