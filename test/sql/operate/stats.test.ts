import { describe, expect, it } from 'vitest'
import { freezeClock, moveClock, restoreClock } from '../../support/clock.ts'
import {
  bury,
  claim,
  claimOne,
  complete,
  enqueue,
  enqueueBatch,
  fail,
  freshType,
  maintain,
  settings,
  started,
} from '../../support/engine.ts'
import { ownDatabase } from '../../support/server.ts'
import { Session } from '../../support/sessions.ts'
import { one, refused } from '../../support/sql.ts'

const database = ownDatabase()
const db = () => database.db

const stats = async (type: string) =>
  (await db().query('select * from fencepost.stats($1)', [type]))[0]

describe('stats', () => {
  it('tells depths, totals and workers', async () => {
    const type = freshType()
    await settings(db(), type, { backoff_base: '0', max_running: 9 })
    await enqueueBatch(db(), type, 4)
    await enqueue(db(), type, { delay: '1 hour' })
    const [first, second, third] = await claim(db(), type, 3)
    if (!first || !second || !third) throw new Error('three jobs were there')
    await complete(db(), first)
    await fail(db(), second)
    await bury(db(), third)
    await db().query('select fencepost.replay($1)', [third.job_id])
    await db().query('select fencepost.cancel($1)', [third.job_id])
    await claim(db(), type, 1)
    await maintain(db())
    expect(await stats(type)).toMatchObject({
      type,
      ready: 1,
      delayed: 1,
      pending: 2,
      running: 1,
      waiting: 0,
      dead_letter: 0,
      enqueued_total: 5,
      completed_total: 1,
      failed_attempts_total: 2,
      retried_total: 1,
      dead_lettered_total: 1,
      cancelled_total: 1,
      replayed_total: 1,
      discarded_total: 0,
      workers: 1,
      draining_workers: 0,
      paused: false,
      max_running: 9,
    })
    expect(await one(db(), 'select count(*) from fencepost.stats() where type = $1', [type])).toBe(
      1,
    )
  })

  it('tells the age of the oldest ready job, wherever it hides', async () => {
    await freezeClock(db())
    const type = freshType()
    const age = async () => (await stats(type))?.oldest_ready_seconds
    await enqueue(db(), type)
    expect(await age()).toBe(0)
    await claimOne(db(), type) // a watermark is made
    expect(await age()).toBeNull()
    await moveClock(db(), '1 second')
    await using late = await Session.open(database.url)
    await late.begin()
    await late.query('select fencepost.enqueue($1)', [type])
    await moveClock(db(), '10 seconds')
    await enqueue(db(), type)
    await claim(db(), type, 1) // the watermark passes the transaction in flight
    await enqueue(db(), type)
    await moveClock(db(), '10 seconds')
    expect(await age()).toBe(10)
    await late.commit()
    expect(await age()).toBe(20)
    await restoreClock(db())
  })

  it('tells rates over the last one to two minutes, and minutes for charts', async () => {
    await freezeClock(db(), new Date('2031-01-01T12:00:30Z'))
    const type = freshType()
    await enqueueBatch(db(), type, 90)
    await db().query(
      'select fencepost.complete_many(array_agg(job_id), array_agg(token)) from fencepost.claim($1, $2, 45)',
      ['w', [type]],
    )
    await maintain(db())
    expect(await stats(type)).toMatchObject({
      enqueued_per_second: 1,
      completed_per_second: 0.5,
      failed_per_second: 0,
    })
    expect(
      await db().query(
        'select minute, enqueued, completed, failed, dead_lettered from fencepost.throughput where type = $1',
        [type],
      ),
    ).toEqual([
      {
        minute: new Date('2031-01-01T12:00:00Z'),
        enqueued: 90,
        completed: 45,
        failed: 0,
        dead_lettered: 0,
      },
    ])
    await moveClock(db(), '2 minutes')
    expect(await stats(type)).toMatchObject({ enqueued_per_second: 0, completed_per_second: 0 })
    await moveClock(db(), '4 hours')
    await maintain(db())
    expect(
      await one(db(), 'select count(*) from fencepost.throughput where type = $1', [type]),
    ).toBe(0)
    await restoreClock(db())
  })

  it('counts a worker as long as it lives', async () => {
    const type = freshType()
    await enqueue(db(), type)
    const worker = await one<number>(db(), 'select fencepost.register_worker($1, types => $2)', [
      'counted',
      [type],
    ])
    expect(await stats(type)).toMatchObject({ workers: 1, draining_workers: 0 })
    await db().query('select fencepost.drain_worker($1)', [worker])
    expect(await stats(type)).toMatchObject({ workers: 0, draining_workers: 1 })
    await moveClock(db(), '31 seconds')
    expect(await stats(type)).toMatchObject({ workers: 0, draining_workers: 0 })
    await restoreClock(db())
  })

  it('refuses a type that does not exist, naming the nearest', async () => {
    await enqueue(db(), 'email.send')
    const refusal = await refused(stats('email.sent'), 'JE002')
    expect(refusal.hint).toContain(`did you mean 'email.send'?`)
  })
})

describe('outcome_totals', () => {
  interface Total {
    readonly kind: string
    readonly outcome: string | null
    readonly events: number
    readonly bounds: number[]
    readonly wait_seconds: number
    readonly wait_counts: number[]
    readonly run_seconds: number
    readonly run_counts: number[]
  }
  const totals = (type: string) =>
    db().query<Total>('select * from fencepost.outcome_totals($1) order by kind, outcome', [type])

  it('counts each event once, with histograms of wait and run', async () => {
    await freezeClock(db())
    const type = freshType()
    await enqueue(db(), type)
    await moveClock(db(), '2 seconds')
    const slow = await claimOne(db(), type)
    await moveClock(db(), '20 seconds')
    await complete(db(), slow)
    const quick = await started(db(), type)
    await complete(db(), quick)
    for (let n = 0; n < 3; n++) await maintain(db())
    const [total, ...others] = await totals(type)
    expect(others).toEqual([])
    expect(total).toMatchObject({
      kind: 'job.completed',
      outcome: 'completed',
      events: 2,
      wait_seconds: 2,
      run_seconds: 20,
    })
    const above = (seconds: number) =>
      total?.bounds.filter((bound) => bound <= seconds).length ?? -1
    expect(total?.wait_counts[0]).toBe(1)
    expect(total?.wait_counts[above(2)]).toBe(1)
    expect(total?.run_counts[above(20)]).toBe(1)
    expect(total?.run_counts).toHaveLength((total?.bounds.length ?? 0) + 1)
    await complete(db(), await started(db(), type))
    await maintain(db())
    expect((await totals(type))[0]).toMatchObject({ events: 3, wait_seconds: 2, run_seconds: 20 })
    await restoreClock(db())
  })

  it('misses no transaction that was in flight, nor counts it twice', async () => {
    const type = freshType()
    const jobs = [await started(db(), type), await started(db(), type)]
    await using late = await Session.open(database.url)
    await late.begin()
    await late.query('select fencepost.complete($1, $2)', [jobs[0]?.job_id, jobs[0]?.token])
    await db().query('select fencepost.complete($1, $2)', [jobs[1]?.job_id, jobs[1]?.token])
    for (let n = 0; n < 2; n++) await maintain(db())
    expect((await totals(type))[0]?.events).toBe(1)
    await late.commit()
    for (let n = 0; n < 2; n++) await maintain(db())
    expect((await totals(type))[0]?.events).toBe(2)
  })

  it('goes on in bounded passes, also over a transaction that alone is larger', async () => {
    const type = freshType()
    await enqueueBatch(db(), type, 7)
    await maintain(db())
    await db().query(
      'select fencepost.complete_many(array_agg(job_id), array_agg(token)) from fencepost.claim($1, $2, 7)',
      ['w', [type]],
    )
    await complete(db(), await started(db(), type))
    const fold = () => one<number>(db(), 'select fencepost_private.fold_outcomes(3)')
    expect([await fold(), await fold(), await fold()]).toEqual([7, 1, 0])
    expect((await totals(type))[0]?.events).toBe(8)
  })
})
