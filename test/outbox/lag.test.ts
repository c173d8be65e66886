import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { freezeClock, moveClock } from '../support/clock.ts'
import { enqueue, freshType, maintain, started } from '../support/engine.ts'
import {
  consumerState,
  createConsumer,
  drainEvents,
  publishing,
  takeTick,
} from '../support/outbox.ts'
import { type TestDatabase, testDatabase } from '../support/server.ts'
import { Session } from '../support/sessions.ts'
import { one, refused } from '../support/sql.ts'

// How far behind a consumer is, and when that is too far.

let database: TestDatabase
const db = () => database.db
beforeEach(async () => {
  database = await testDatabase()
})
afterEach(() => database.drop())

const expire = () => one<number>(db(), 'select fencepost_private.expire_consumers()')
const promptConsumer = () =>
  db().query(`select fencepost.create_consumer('prompt', max_lag => '3 seconds')`)

describe('a consumer that reads each second', () => {
  it('is not behind by an event that nobody could read before: its transaction committed late', async () => {
    await promptConsumer()
    await enqueue(db(), await publishing(db(), freshType()))
    await drainEvents(db(), 'prompt')
    await freezeClock(db())
    await using writer = await Session.open(database.url)
    await writer.begin()
    await writer.query('select fencepost.cancel(fencepost.enqueue($1))', [freshType()])
    await moveClock(db(), '1 hour')
    await writer.commit()
    expect(await expire()).toBe(0)
    expect((await consumerState(db(), 'prompt')).lag_seconds).toBe(0)
    await moveClock(db(), '2 seconds')
    expect(await expire()).toBe(0)
    expect((await consumerState(db(), 'prompt')).lag_seconds).toBe(2)
    expect(await drainEvents(db(), 'prompt')).toHaveLength(1)
    expect(await consumerState(db(), 'prompt')).toMatchObject({ lag_seconds: 0, expired_at: null })
  })
})

describe('a consumer that stands still', () => {
  it('is behind from when the first event could be read, however ticks are thinned, and expires', async () => {
    const type = await publishing(db(), freshType())
    await createConsumer(db(), 'asleep')
    for (let index = 0; index < 12; index++) {
      await enqueue(db(), type)
      await maintain(db())
      await moveClock(db(), '20 minutes')
    }
    expect((await consumerState(db(), 'asleep')).lag_seconds).toBeGreaterThan(3.5 * 3600)
    await moveClock(db(), '8 days')
    await maintain(db())
    expect((await consumerState(db(), 'asleep')).expired_at).toBeInstanceOf(Date)
  })

  it('expires also beside one whose max_lag no calendar has', async () => {
    await createConsumer(db(), 'boundless')
    await db().query(
      'alter table fencepost_private.consumer drop constraint consumer_max_lag_positive',
    )
    await db().query(`update fencepost_private.consumer set max_lag = '1000000 years'`)
    await promptConsumer()
    await enqueue(db(), await publishing(db(), freshType()))
    await takeTick(db())
    await moveClock(db(), '4 seconds')
    expect(await expire()).toBe(1)
  })
})

it('intervals of more than 100 years are refused, and not met later as times that there are not', async () => {
  const { job_id, token } = await started(db(), freshType())
  for (const call of [
    `create_consumer('one', max_lag => '10000 years')`,
    `create_webhook('one', 'https://example.com', max_lag => '101 years')`,
    `suspend(${job_id}, ${token}, delay => '1000000 years')`,
    `enqueue('one', delay => '1000000 years')`,
    `enqueue_batch('one', array['{}'::jsonb], delay => '1000000 years')`,
  ])
    await refused(db().query(`select fencepost.${call}`), 'JE003')
})
