import { afterAll, beforeAll, expect, it } from 'vitest'
import { type Example, startExample } from './example.ts'

type Branches = typeof import('../../examples/etl-branches/workflow.ts')

let example: Example<Branches>
beforeAll(async () => {
  example = await startExample(() => import('../../examples/etl-branches/workflow.ts'))
})
afterAll(() => example.stop())

it('loads every diamond once and averages them in three branches', async () => {
  const { engine, db, workflow } = example
  const run = await engine.start(workflow, { chunk: 5_000 }, { idempotencyKey: 'gems' })
  expect(await run.result()).toEqual({
    check: { rows: 53_940, loaded: 53_869, refused: 71 },
  })
  const [found] = await db.query(
    `select (select count(*)::int from gems.diamond) as diamonds, (select count(*)::int from gems.refused) as refused`,
  )
  expect(found).toEqual({ diamonds: 53_869, refused: 71 })
  const averages = await db.query(
    `select quality, count(*)::int as values, sum(diamonds)::int as diamonds
     from gems.average group by quality order by quality`,
  )
  expect(averages).toEqual([
    { quality: 'clarity', values: 8, diamonds: 53_869 },
    { quality: 'color', values: 7, diamonds: 53_869 },
    { quality: 'cut', values: 5, diamonds: 53_869 },
  ])

  const tasks = await run.tasks()
  const load = tasks.find(({ name }) => name === 'load')
  const chunks = await run.tasks({ parentTaskId: load?.id })
  expect(chunks).toHaveLength(11)
  expect(chunks.every(({ status }) => status === 'completed')).toBe(true)
  expect((await engine.start(workflow, { chunk: 5_000 }, { idempotencyKey: 'gems' })).id).toBe(
    run.id,
  )
})

it('runs again on the same database, and replaces what it had loaded', async () => {
  const { engine, db, workflow } = example
  const run = await engine.start(workflow, { chunk: 10_000 })
  expect(await run.result()).toEqual({
    check: { rows: 53_940, loaded: 53_869, refused: 71 },
  })
  expect(await db.query('select count(*)::int as diamonds from gems.diamond')).toEqual([
    { diamonds: 53_869 },
  ])
})
