import { expect, it } from 'vitest'
import { json } from '../../src/database/database.ts'
import { publish, type TaskSpec } from '../support/runs.ts'
import { testDatabase } from '../support/server.ts'
import { column, one } from '../support/sql.ts'

// A value of PostgreSQL, an array of payloads too, holds a gigabyte at most. What starts together may be more than that.

const KILOBYTES = 1000
const TASKS = 1100

it(`${TASKS} tasks of a run start together, each with a payload of ${KILOBYTES} kB`, async () => {
  await using database = await testDatabase()
  const { db } = database
  const tasks = Array.from({ length: TASKS }, (_, n): [string, TaskSpec] => [
    `t${n}`,
    { type: 'wide' },
  ])
  const workflow = await publish(db, Object.fromEntries(tasks))
  const input = { text: 'x'.repeat(KILOBYTES * 1000) }
  await db.query('select fencepost.start_run($1, $2)', [workflow, json(input)], {
    timeout: 240_000,
  })
  expect(await one(db, `select ready::int from fencepost.stats() where type = 'wide'`)).toBe(TASKS)
  expect(
    await column(
      db,
      `select payload from fencepost.jobs where type = 'wide' and status = 'pending' order by id desc limit 1`,
    ),
  ).toEqual([{ input, tasks: {} }])
}, 300_000)
