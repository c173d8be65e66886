import { expect, it } from 'vitest'
import { moveClock } from '../support/clock.ts'
import { publish, start, typeOf } from '../support/runs.ts'
import { ownDatabase } from '../support/server.ts'
import { Session } from '../support/sessions.ts'
import { column } from '../support/sql.ts'

const database = ownDatabase()
const db = () => database.db

/** A cancelled run of so many items, all of them dead letters that nobody can replay. */
async function cancelled(workflow: string, count: number): Promise<void> {
  const run = await start(db(), workflow, { list: Array.from({ length: count }, (_, n) => n) })
  for (let left = count; left > 0; left -= 500)
    await db().query(
      `select fencepost.fail_many(array_agg(job_id), array_agg(token), permanent => array_agg(true)) from fencepost.claim('w', $1, 500)`,
      [[typeOf(workflow, 'm')]],
    )
  await run.call('cancel_run')
}

/** The least time of three tries, in ms; each is undone. */
async function timeOf(session: Session, text: string): Promise<number> {
  const times: number[] = []
  for (let n = 0; n < 3; n++) {
    await session.begin()
    const [plan] = await session.query<{ 'QUERY PLAN': [{ 'Execution Time': number }] }>(
      `explain (analyze, format json) ${text}`,
    )
    await session.rollback()
    times.push(plan?.['QUERY PLAN'][0]['Execution Time'] ?? 0)
  }
  return Math.min(...times)
}

it('a large family goes in a time that grows with it, not with its square', async () => {
  const workflow = await publish(db(), { m: { kind: 'map', over: '$.input.list' } })
  const sizes = [400, 8000]
  for (const size of sizes) await cancelled(workflow, size)
  await db().query('analyze')
  await moveClock(db(), '8 days')
  await using session = await Session.open(database.url)
  const apiece: number[] = []
  for (const id of await column<number>(db(), 'select id from fencepost.runs order by id')) {
    const took = await timeOf(
      session,
      `select fencepost_private.retire_families(array[${id}], fencepost_private.now())`,
    )
    apiece.push(took / (sizes[apiece.length] as number))
  }
  console.log(`ms a task: ${apiece.map((time) => time.toFixed(4))} of ${sizes}`)
  expect(Number(apiece[1])).toBeLessThan(3 * Number(apiece[0]))
})
