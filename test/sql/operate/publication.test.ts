import { describe, expect, it } from 'vitest'
import { moveClock } from '../../support/clock.ts'
import {
  bury,
  claimOne,
  complete,
  enqueueBatch,
  freshType,
  maintain,
  started,
  violations,
} from '../../support/engine.ts'
import { createConsumer, drainEvents } from '../../support/outbox.ts'
import { restoreAsDump } from '../../support/restored.ts'
import { begin, drain } from '../../support/runs.ts'
import { ownDatabase } from '../../support/server.ts'
import { one } from '../../support/sql.ts'

const database = ownDatabase()
const db = () => database.db

describe('with a publication of all tables, as Debezium and blue/green deployments make one', () => {
  it('the engine goes on: jobs, runs, consumers, all housekeeping, and after_restore()', async () => {
    await db().query('create publication everything for all tables')
    const type = freshType()
    await db().query(`select fencepost.configure_type($1, keep_finished => '1 minute')`, [type])
    await createConsumer(db(), 'reader')
    await enqueueBatch(db(), type, 20)
    for (let index = 0; index < 10; index++) await complete(db(), await claimOne(db(), type))
    await bury(db(), await started(db(), type))
    const run = await begin(db(), { only: {} })
    await drain(db(), run.workflow, ['only'])
    for (let pass = 0; pass < 6; pass++) {
      await enqueueBatch(db(), type, 1)
      await drainEvents(db(), 'reader')
      await maintain(db())
      await moveClock(db(), '1 hour')
    }
    expect(
      await one(db(), 'select count(*) from fencepost_private.maintain_step where failures > 0'),
    ).toBe(0)
    await restoreAsDump(db(), 1000)
    await db().query('select * from fencepost.after_restore()')
    await maintain(db())
    expect(await violations(db())).toEqual([])
  })
})
