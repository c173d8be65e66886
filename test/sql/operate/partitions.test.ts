import { describe, expect, it } from 'vitest'
import { moveClock } from '../../support/clock.ts'
import {
  bury,
  complete,
  enqueue,
  enqueueBatch,
  freshType,
  maintain,
  started,
  status,
  violations,
} from '../../support/engine.ts'
import { ownDatabase, testDatabase } from '../../support/server.ts'
import { Session } from '../../support/sessions.ts'
import { column, one } from '../../support/sql.ts'

const database = ownDatabase()
const db = () => database.db

const partitions = (parent: string) =>
  column<string>(db(), 'select name from fencepost_private.partitions($1) order by first_id', [
    parent,
  ])
const draw = (parent: string, id: number) =>
  db().query(`select setval('fencepost_private.${parent}_id_seq', $1)`, [id])
/** Housekeeping a minute later: every step but the hourly ones is due. */
const maintainLater = async () => {
  await moveClock(db(), '61 seconds')
  await maintain(db())
}

describe('partitions', () => {
  it('are there from the first day, and three are kept ahead', async () => {
    expect(await partitions('job')).toEqual(['job_0', 'job_1000000', 'job_2000000', 'job_3000000'])
    expect(await partitions('event')).toHaveLength(4)
    await draw('job', 1_500_000)
    await maintainLater()
    expect(await partitions('job')).toContain('job_4000000')
    expect(await one(db(), 'select fencepost_private.create_partitions()')).toBe(0)
  })

  it('are made by enqueues when maintain() has not run for a month', async () => {
    await draw('job', 4_009_990)
    await enqueueBatch(db(), freshType(), 20)
    expect((await partitions('job')).at(-1)).toBe('job_7000000')
    expect(await violations(db())).toEqual([])
  })

  it('are made while somebody reads and writes, and while a writer holds the table open', async () => {
    await using other = await Session.open(database.url)
    await other.begin('repeatable read')
    await other.query('select count(*) from fencepost_private.job')
    await other.query('select fencepost.enqueue($1)', [freshType()])
    await draw('job', 7_000_000)
    expect(await one<number>(db(), 'select fencepost_private.create_partitions()')).toBeGreaterThan(
      0,
    )
    await other.commit()
  })

  it('never fail an enqueue that cannot make them', async () => {
    await using other = await Session.open(database.url)
    await other.begin()
    await other.query('lock table fencepost_private.event in share update exclusive mode')
    await draw('event', 3_900_000)
    expect(await one(db(), 'select fencepost_private.ensure_partitions()')).toBe(0)
    await other.rollback()
    expect(await one<number>(db(), 'select fencepost_private.ensure_partitions()')).toBeGreaterThan(
      0,
    )
  })

  it('grow wider when many are in use', async () => {
    await draw('event', 12_500_000)
    await db().query('select fencepost_private.create_partitions()')
    await draw('event', 15_600_000)
    await db().query('select fencepost_private.create_partitions()')
    const widths = await column<number>(
      db(),
      `select end_id - first_id from fencepost_private.partitions('event') order by first_id`,
    )
    expect(widths.at(-1)).toBeGreaterThan(1_000_000)
  })
})

describe('a partition whose jobs have all ended', () => {
  it('is dropped once they are older than any type keeps them, its keys before, its events after', async () => {
    await using fresh = await testDatabase()
    const on = fresh.db
    const names = (parent: string) =>
      column<string>(on, 'select name from fencepost_private.partitions($1) order by first_id', [
        parent,
      ])
    const type = freshType()
    const done = await started(on, type, { idempotency_key: 'once' })
    await on.query('select fencepost.step($1, $2, $3)', [done.job_id, done.token, 'half'])
    await complete(on, done)
    const dead = await started(on, type)
    await bury(on, dead)
    await on.query(
      `select setval('fencepost_private.job_id_seq', 1000000), setval('fencepost_private.event_id_seq', 1000000)`,
    )
    const later = async (by: string) => {
      for (let pass = 0; pass < 4; pass++) {
        await moveClock(on, pass === 0 ? by : '61 seconds')
        await maintain(on)
      }
    }
    await later('61 seconds')
    expect(await one(on, 'select count(*) from fencepost_private.partition_fate')).toBe(0) // a dead letter holds it
    await on.query('select fencepost.discard($1)', [dead.job_id])
    await later('61 seconds')
    expect(await column(on, 'select partition from fencepost_private.partition_fate')).toEqual([
      'job_0',
    ])

    await later('6 days 23 hours')
    expect(await names('job')).toContain('job_0')
    expect(await status(on, done.job_id)).toBe('completed')
    await later('2 hours')
    expect(await names('job')).not.toContain('job_0')
    expect(await one(on, 'select count(*) from fencepost_private.idempotency_key')).toBe(0)
    expect(await one(on, 'select count(*) from fencepost_private.step')).toBe(0)
    await enqueue(on, type) // an event partition goes when the bodies it tells of have gone
    await later('2 hours')
    expect(await names('event')).not.toContain('event_0')
    expect(await violations(on)).toEqual([])
  })

  it('is not dropped while somebody reads it: the step backs off and the others go on', async () => {
    await using fresh = await testDatabase()
    const on = fresh.db
    await complete(on, await started(on, freshType()))
    await on.query(`select setval('fencepost_private.job_id_seq', 1000000)`)
    await moveClock(on, '61 seconds')
    await maintain(on)
    await moveClock(on, '61 seconds')
    await maintain(on)
    await moveClock(on, '8 days')
    await using reader = await Session.open(fresh.url)
    await reader.begin()
    await reader.query('select count(*) from fencepost_private.job')
    await one(on, 'select count(fencepost_private.create_partitions())')
    const steps = await on.query<{ step: string; error: string | null }>(
      'select step, error from fencepost.maintain()',
    )
    expect(steps.find(({ step }) => step === 'drop_partition')?.error).toContain('55P03')
    expect(steps.map(({ step }) => step)).toContain('fold_depth')
    await enqueue(on, freshType())
    await reader.rollback()
    await moveClock(on, '61 seconds')
    const again = await on.query('select step, done from fencepost.maintain() where done > 0')
    expect(again).toEqual([{ step: 'drop_partition', done: 1 }])
    expect(
      await one(
        on,
        `select failures from fencepost_private.maintain_step where step = 'drop_partition'`,
      ),
    ).toBe(0)
  })
})
