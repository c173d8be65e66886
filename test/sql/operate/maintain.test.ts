import { describe, expect, it } from 'vitest'
import { freezeClock, moveClock, restoreClock } from '../../support/clock.ts'
import {
  bury,
  claim,
  complete,
  enqueue,
  enqueueBatch,
  fail,
  freshType,
  maintain,
  settings,
  started,
  status,
  violations,
} from '../../support/engine.ts'
import { ownDatabase } from '../../support/server.ts'
import { Session } from '../../support/sessions.ts'
import { column, one, refused } from '../../support/sql.ts'

const database = ownDatabase()
const db = () => database.db

interface Step {
  readonly step: string
  readonly done: number
  readonly error: string | null
}
const pass = () => db().query<Step>('select * from fencepost.maintain()')

describe('maintain', () => {
  it('reports each step that was due, in order', async () => {
    const steps = (await pass()).map(({ step }) => step)
    expect(steps.slice(0, 5)).toEqual([
      'create_partitions',
      'drop_partition',
      'mark_lost',
      'reclaim',
      'resume_due',
    ])
    expect(steps).toContain('fold_depth')
    expect((await pass()).map(({ step }) => step)).not.toContain('create_partitions')
    await moveClock(db(), '61 seconds')
    expect((await pass()).map(({ step }) => step)).toContain('create_partitions')
  })

  it('says nothing when another is running, and waits for nobody', async () => {
    await using other = await Session.open(database.url)
    await other.begin()
    await other.query('select * from fencepost.maintain()')
    expect(await pass()).toEqual([])
    await other.rollback()
    expect(await pass()).not.toEqual([])
  })

  it('isolates a step that fails, tells of it, backs off and recovers', async () => {
    await freezeClock(db())
    const type = freshType()
    await enqueue(db(), type, { delay: '1 second' })
    await moveClock(db(), '2 seconds')
    await db().query(
      `update fencepost_private.maintain_step set call = 'last_id((1/0)::text)' where step = 'reclaim'`,
    )
    const steps = await pass()
    expect(steps.find(({ step }) => step === 'reclaim')).toMatchObject({
      done: 0,
      error: expect.stringContaining('22012'),
    })
    expect(steps.find(({ step }) => step === 'promote')).toMatchObject({ done: 1, error: null })
    expect((await pass()).map(({ step }) => step)).not.toContain('reclaim') // it rests
    for (let n = 0; n < 2; n++) {
      await moveClock(db(), '10 seconds')
      await pass()
    }
    expect(
      await column(db(), `select finding from fencepost.doctor() where topic = 'maintain_failing'`),
    ).toEqual([expect.stringContaining('the step reclaim of maintain() failed 3 times')])
    await db().query(
      `update fencepost_private.maintain_step set call = 'reclaim(1000)' where step = 'reclaim'`,
    )
    await moveClock(db(), '10 minutes')
    expect((await pass()).find(({ step }) => step === 'reclaim')).toMatchObject({ error: null })
    expect(
      await one(
        db(),
        `select failures from fencepost_private.maintain_step where step = 'reclaim'`,
      ),
    ).toBe(0)
    await restoreClock(db())
  })

  it('is refused outside READ COMMITTED', async () => {
    await using session = await Session.open(database.url)
    await session.begin('repeatable read')
    await refused(session.query('select * from fencepost.maintain()'), 'JE003')
  })

  it('writes nothing when there is nothing to do', async () => {
    await moveClock(db(), '1 hour')
    for (let n = 0; n < 3; n++) await pass()
    await db().transaction(async (tx) => {
      await tx.query('select * from fencepost.maintain()')
      expect(await one(tx, 'select pg_current_xact_id_if_assigned()::text')).toBeNull()
    })
  })

  it('keeps one watermark a lane', async () => {
    const type = freshType()
    const hints = () =>
      one<number>(
        db(),
        'select count(*) from fencepost_private.lane_hint join fencepost_private.lane using (lane_id) join fencepost_private.job_type using (type_id) where type = $1',
        [type],
      )
    for (let n = 0; n < 5; n++) {
      await enqueueBatch(db(), type, 2)
      await claim(db(), type, 1)
      await moveClock(db(), '1 second')
    }
    expect(await hints()).toBeGreaterThan(1)
    await moveClock(db(), '61 seconds')
    await maintain(db())
    expect(await hints()).toBe(1)
    await claim(db(), type, 1)
    await moveClock(db(), '61 seconds')
    await maintain(db())
    expect(await hints()).toBe(1)
    expect(await violations(db())).toEqual([])
  })
})

describe('finished jobs', () => {
  const bodies = (type: string) =>
    one<number>(db(), 'select count(*) from fencepost.jobs where type = $1', [type])

  it('are removed after keep_finished of their type, with key, steps and progress', async () => {
    const [brief, long] = [freshType('brief'), freshType('long')]
    await settings(db(), brief, { keep_finished: '1 hour' })
    for (const type of [brief, long]) {
      const job = await started(db(), type, { idempotency_key: 'k' })
      await db().query('select fencepost.step($1, $2, $3), fencepost.progress($1, $2, $4)', [
        job.job_id,
        job.token,
        'one',
        '0.5',
      ])
      await complete(db(), job, 'done')
      const cancelled = await enqueue(db(), type)
      await db().query('select fencepost.cancel($1)', [cancelled])
    }
    await moveClock(db(), '59 minutes')
    await maintain(db())
    expect(await bodies(brief)).toBe(2)
    await moveClock(db(), '2 minutes')
    await maintain(db())
    expect(await bodies(brief)).toBe(0)
    expect(await bodies(long)).toBe(2)
    expect(
      await column(
        db(),
        'select type from fencepost_private.idempotency_key join fencepost_private.job_type using (type_id) where key = $1',
        ['k'],
      ),
    ).toEqual([long])
    expect(await one(db(), 'select count(*) from fencepost_private.step')).toBe(1)
    expect(await one(db(), 'select count(*) from fencepost_private.progress')).toBe(1)
    await moveClock(db(), '7 days')
    await maintain(db())
    expect(await bodies(long)).toBe(0)
    expect(await violations(db())).toEqual([])
  })

  it('free their idempotency key for a new job', async () => {
    const type = freshType()
    const first = await started(db(), type, { idempotency_key: 'again' })
    await complete(db(), first)
    expect(await enqueue(db(), type, { idempotency_key: 'again' })).toBe(first.job_id)
    await moveClock(db(), '8 days')
    await maintain(db())
    expect(await enqueue(db(), type, { idempotency_key: 'again' })).toBeGreaterThan(first.job_id)
  })

  it('are removed in bounded passes; what lives and dead letters stay a year', async () => {
    const type = freshType()
    const dead = await started(db(), type)
    await bury(db(), dead)
    const delayed = await enqueue(db(), type, { delay: '2 years' })
    const retried = await started(db(), type)
    await fail(db(), retried)
    await enqueueBatch(db(), type, 30)
    await db().query(
      'select fencepost.complete_many(array_agg(job_id), array_agg(token)) from fencepost.claim($1, $2, 30)',
      ['w', [type]],
    )
    await moveClock(db(), '1 year')
    const removed: number[] = []
    for (;;) {
      const count = await one<number>(db(), 'select fencepost_private.retire_jobs(10)')
      removed.push(count)
      const [{ position } = { position: 0 }] = await db().query<{ position: number }>(
        `select position from fencepost_private.maintain_step where step = 'retire_jobs'`,
      )
      if (position === 0) break
    }
    expect(Math.max(...removed)).toBeLessThanOrEqual(10)
    for (let n = 0; n < 5; n++) await maintain(db())
    expect(await status(db(), dead.job_id)).toBe('dead_letter')
    expect(await status(db(), delayed)).toBe('pending')
    expect(await status(db(), retried.job_id)).toBe('pending')
    expect(await bodies(type)).toBe(3)
    expect(await violations(db())).toEqual([])
  })

  it('are removed sooner when an operator says so', async () => {
    const type = freshType()
    await complete(db(), await started(db(), type))
    await moveClock(db(), '1 minute')
    await maintain(db()) // it now rests for long
    await db().query(`select fencepost.configure_type($1, keep_finished => '10 seconds')`, [type])
    await moveClock(db(), '1 second')
    await maintain(db())
    expect(await bodies(type)).toBe(0)
  })
})

describe('workers', () => {
  it('that ended are forgotten after thirty days', async () => {
    const id = await one<number>(db(), `select fencepost.register_worker('old')`)
    await db().query('select fencepost.stop_worker($1)', [id])
    const known = () =>
      one<number>(db(), 'select count(*) from fencepost.workers where id = $1', [id])
    await moveClock(db(), '29 days')
    await maintain(db())
    expect(await known()).toBe(1)
    await moveClock(db(), '2 days')
    await maintain(db())
    expect(await known()).toBe(0)
  })
})
