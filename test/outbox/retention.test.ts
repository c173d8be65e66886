import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { moveClock } from '../support/clock.ts'
import { enqueue, freshType, maintain, violations } from '../support/engine.ts'
import {
  consumerState,
  createConsumer,
  drainEvents,
  publishing,
  readEvents,
  takeTick,
} from '../support/outbox.ts'
import { type TestDatabase, testDatabase } from '../support/server.ts'
import { Session } from '../support/sessions.ts'
import { column, one, refused } from '../support/sql.ts'

let database: TestDatabase
const db = () => database.db
beforeEach(async () => {
  database = await testDatabase()
})
afterEach(() => database.drop())

const partitions = () =>
  column<string>(db(), `select name from fencepost_private.partitions('event') order by first_id`)
const count = (table: string) =>
  one<number>(db(), `select count(*) from fencepost_private.${table}`)
/** Publishes events of jobs that come and go, and lets all be old: of the log nothing but consumers needs them. */
const setUp = async () => {
  const type = await publishing(db(), freshType())
  await db().query(`select fencepost.configure_type($1, keep_finished => '1 minute')`, [type])
  await comeAndGo(type, 1)
  return type
}
/** What is enqueued and cancelled leaves two events and, after a while, no body. */
const comeAndGo = async (type: string, count: number) => {
  for (let index = 0; index < count; index++) {
    const id = await enqueue(db(), type)
    await db().query('select fencepost.cancel($1)', [id])
  }
}
const nextPartition = async () => {
  const [row] = await db().query<{ end_id: number }>(
    `select end_id from fencepost_private.partitions('event') p where p.end_id > fencepost_private.last_id('event') order by end_id limit 1`,
  )
  await db().query(`select setval('fencepost_private.event_id_seq', $1)`, [row?.end_id])
}
const pass = async (days: number) => {
  for (let day = 0; day < days; day++) {
    await moveClock(db(), '1 day')
    await maintain(db())
    await maintain(db())
  }
}

describe('the log is kept', () => {
  it('for who has not read it, and dropped when all have, whoever reads in an open transaction', async () => {
    const type = await setUp()
    await createConsumer(db(), 'slow', { types: [type] })
    await createConsumer(db(), 'quick', { types: [type] })
    await comeAndGo(type, 20)
    const first = (await partitions())[0] as string
    await nextPartition()
    await comeAndGo(type, 1)
    await drainEvents(db(), 'quick')
    await pass(5)
    await drainEvents(db(), 'quick')
    expect(await partitions()).toContain(first)
    expect(await drainEvents(db(), 'slow', 7)).toHaveLength(42)

    // a reader in the middle of a transaction: dropping gives way, at once, and work goes on
    await using reader = await Session.open(database.url)
    await reader.begin()
    await reader.query('select count(*) from fencepost_private.event')
    await moveClock(db(), '3 days')
    await maintain(db()).catch(() => {})
    const stopped = await column(
      db(),
      'select error from fencepost_private.maintain_step where failures > 0',
    )
    expect(stopped).toEqual([expect.stringContaining('55P03')])
    expect(await partitions()).toContain(first)
    await comeAndGo(type, 1)
    await reader.commit()
    await pass(3)
    expect(await partitions()).not.toContain(first)
    expect(await drainEvents(db(), 'slow')).toHaveLength(2)
    expect(await violations(db())).toEqual([])
  })

  it('for who was still writing it when it was to be dropped', async () => {
    const type = await setUp()
    await createConsumer(db(), 'patient', { types: [type] })
    await nextPartition()
    await comeAndGo(type, 1)
    await nextPartition() // the one between holds nothing but what is not committed
    const before = await partitions()
    await db().query(
      `select setval('fencepost_private.event_id_seq', (select first_id + 10 from fencepost_private.partitions('event') where name = $1))`,
      [before[2]],
    )
    await using writer = await Session.open(database.url)
    await writer.begin()
    await writer.query('select fencepost.cancel(fencepost.enqueue($1))', [type])
    await nextPartition()
    await comeAndGo(type, 1)
    await db().query(`alter function fencepost_private.drop_partition() set lock_timeout = '10s'`)
    await using keeper = await Session.open(database.url)
    const dropping = await keeper.blocks('select fencepost_private.drop_partition()')
    await writer.commit()
    await expect(dropping.answer).rejects.toThrow('written to meanwhile')
    expect(await partitions()).toContain(before[2])
  })

  it('no longer than max_lag: then the consumer is marked, says so, and goes on where it is told', async () => {
    const type = await setUp()
    await db().query(
      `select fencepost.create_consumer('late', jsonb_build_object('types', array[$1::text]), max_lag => '3 days')`,
      [type],
    )
    await comeAndGo(type, 3)
    const first = (await partitions())[0] as string
    await nextPartition()
    await comeAndGo(type, 1)
    await pass(2)
    expect(await consumerState(db(), 'late')).toMatchObject({ expired_at: null })
    await pass(9)
    expect((await consumerState(db(), 'late')).expired_at).toBeInstanceOf(Date)
    expect(
      await one(
        db(),
        `select count(*) from fencepost_private.event where kind = 'consumer.expired' and data ->> 'consumer' = 'late'`,
      ),
    ).toBe(1)
    expect(await partitions()).not.toContain(first)
    const error = await refused(readEvents(db(), 'late'), 'JE004')
    expect(error.hint).toContain('seek_consumer')
    await refused(db().query(`select fencepost.ack_events('late', '99999999.0~0')`), 'JE004')
    await db().query(`select fencepost.seek_consumer('late', 'beginning')`)
    expect(await consumerState(db(), 'late')).toMatchObject({ expired_at: null })
    await drainEvents(db(), 'late')
    expect(await consumerState(db(), 'late')).toMatchObject({ lag_events: 0 })
  })

  it('with few ticks and one position a consumer, however long it lives', async () => {
    const type = await setUp()
    await createConsumer(db(), 'steady', { types: [type] })
    await createConsumer(db(), 'asleep', { types: [type] })
    for (let index = 0; index < 50; index++) {
      await enqueue(db(), type)
      await drainEvents(db(), 'steady')
    }
    expect(await count('event_tick')).toBeGreaterThan(50)
    expect(await count('consumer_state')).toBeGreaterThan(100)
    await moveClock(db(), '2 hours')
    await maintain(db())
    await moveClock(db(), '61 minutes')
    await maintain(db())
    expect(await count('event_tick')).toBeLessThan(15)
    expect(await count('consumer_state')).toBeLessThanOrEqual((await count('consumer')) * 2)
    // thinned ticks make longer batches, not lost events
    expect((await drainEvents(db(), 'asleep', 7)).map((event) => event.kind)).toHaveLength(50)
  })
})

describe('a consumer whose row a transaction holds', () => {
  it('keeps no other from being pruned or marked', async () => {
    const type = await setUp()
    for (const name of ['held', 'free']) {
      await createConsumer(db(), name, { types: [type] })
      await comeAndGo(type, 1)
      await drainEvents(db(), name)
    }
    await comeAndGo(type, 1)
    await takeTick(db())
    await moveClock(db(), '8 days')
    await using holder = await Session.open(database.url)
    await holder.begin()
    await holder.query(
      `update fencepost_private.consumer set max_lag = max_lag where name = 'held'`,
    )
    await db().transaction(async (tx) => {
      await tx.query(`set local lock_timeout = '1s'`)
      expect(await one<number>(tx, 'select fencepost_private.prune_consumers()')).toBeGreaterThan(0)
      expect(await one(tx, 'select fencepost_private.expire_consumers()')).toBe(1)
    })
    await holder.rollback()
    expect(await one(db(), 'select fencepost_private.prune_consumers()')).toBeGreaterThan(0)
    expect(await one(db(), 'select fencepost_private.expire_consumers()')).toBe(1)
  })
})
