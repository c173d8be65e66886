import { describe, expect, it } from 'vitest'
import { moveClock, restoreClock } from '../../support/clock.ts'
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

interface Reason {
  readonly reason: string
  readonly detail: string
  readonly since: Date | null
  readonly release: string
}
const explain = (id: number) => db().query<Reason>('select * from fencepost.explain_job($1)', [id])
const reasons = async (id: number) => (await explain(id)).map(({ reason }) => reason)
/** A type that a live worker serves. */
const servedType = async (worker = 'worker-1') => {
  const type = freshType()
  await db().query('select fencepost.register_worker($1, types => $2)', [worker + type, [type]])
  return type
}

describe('a job that waits', () => {
  it('can be claimed, when nothing holds it', async () => {
    const id = await enqueue(db(), await servedType())
    expect(await reasons(id)).toEqual(['claimable'])
  })

  it('has no worker, or none that takes work', async () => {
    const type = freshType()
    const id = await enqueue(db(), type)
    expect((await explain(id))[0]).toMatchObject({
      reason: 'no_worker',
      detail: `No live worker claims type ${type}.`,
    })
    const worker = await one<number>(db(), `select fencepost.register_worker('w', types => $1)`, [
      [type],
    ])
    expect(await reasons(id)).toEqual(['claimable'])
    await db().query('select fencepost.drain_worker($1)', [worker])
    expect(await reasons(id)).toEqual(['workers_draining'])
    await db().query('select fencepost.stop_worker($1)', [worker])
    expect(await reasons(id)).toEqual(['no_worker'])
  })

  it('waits for its time, and then for somebody to notice', async () => {
    const type = await servedType()
    const id = await enqueue(db(), type, { delay: '2 hours' })
    expect((await explain(id))[0]).toMatchObject({
      reason: 'delayed',
      detail: expect.stringContaining('(in 01:59:'),
    })
    await moveClock(db(), '3 hours')
    expect((await explain(id))[0]).toMatchObject({ reason: 'due', since: expect.any(Date) })
    await restoreClock(db())
    const retried = await started(db(), type)
    await fail(db(), retried)
    expect((await explain(retried.job_id))[0]?.detail).toContain('after attempt 1 failed')
  })

  it('is paused, by somebody, for a reason', async () => {
    const type = await servedType()
    const id = await enqueue(db(), type)
    await db().query('select fencepost.pause_type($1, $2)', [type, 'incident 7'])
    expect(await explain(id)).toEqual([
      {
        reason: 'type_paused',
        detail: expect.stringMatching(/^Type .* is paused by .* \(incident 7\)\.$/),
        since: expect.any(Date),
        release: `fencepost.resume_type('${type}').`,
      },
    ])
  })

  it('is held back by a limit, and by whom', async () => {
    const type = await servedType()
    await settings(db(), type, { max_running: 1 })
    const [first, second] = await enqueueBatch(db(), type, 2)
    await claimOne(db(), type)
    const [limit] = await explain(second ?? 0)
    expect(limit).toMatchObject({
      reason: 'limit_reached',
      detail: `Type ${type} runs 1 of at most 1: job ${first} on worker-1.`,
    })
  })

  it('is behind others', async () => {
    const type = await servedType()
    const [first, , third] = await enqueueBatch(db(), type, 3)
    await enqueue(db(), type, { priority: 9 })
    expect(await reasons(first ?? 0)).toEqual(['behind'])
    expect((await explain(third ?? 0))[0]?.detail).toBe(
      'Before it in line, of its type: 3 (1 of higher priority).',
    )
    await claim(db(), type, 3)
    expect(await reasons(third ?? 0)).toEqual(['claimable'])
  })

  it('is in somebody’s open claim', async () => {
    const type = await servedType()
    await settings(db(), type, { max_running: 5 })
    const [first, second] = await enqueueBatch(db(), type, 2)
    await using other = await Session.open(database.url)
    await other.begin()
    await other.query('select * from fencepost.claim($1, $2, 1)', ['worker-1', [type]])
    const held = await explain(first ?? 0)
    expect(held.map(({ reason }) => reason)).toEqual(['claim_open', 'being_claimed'])
    expect(held[1]?.detail).toContain(`Session ${other.pid} has it locked`)
    expect(await reasons(second ?? 0)).toEqual(['claim_open', 'behind'])
    await other.rollback()
    expect(await reasons(first ?? 0)).toEqual(['claimable'])
  })
})

describe('a job that runs, waits aside or has ended', () => {
  it('runs somewhere, since a time', async () => {
    const type = freshType()
    const job = await started(db(), type, { timeout: '5 minutes' }, 'runner')
    expect((await explain(job.job_id))[0]).toMatchObject({
      reason: 'running',
      detail: expect.stringMatching(/^Worker runner \(\d+\) runs attempt 1, token 1\.$/),
    })
    await db().query('select fencepost.cancel($1, $2)', [job.job_id, 'too late'])
    expect((await explain(job.job_id))[1]).toMatchObject({
      reason: 'cancel_requested',
      detail: 'Its cancellation was asked for (too late).',
    })
    await moveClock(db(), '6 minutes')
    expect(await reasons(job.job_id)).toEqual([
      'running',
      'cancel_requested',
      'worker_silent',
      'overdue',
    ])
    await restoreClock(db())
  })

  it('is suspended, dead or over', async () => {
    const type = freshType()
    const waits = await started(db(), type)
    await db().query(
      `select fencepost.suspend($1, $2, delay => '1 day', waits_for => 'approval')`,
      [waits.job_id, waits.token],
    )
    expect((await explain(waits.job_id))[0]).toMatchObject({
      reason: 'waiting',
      detail: expect.stringContaining('to wait for approval until'),
      release: expect.stringContaining(`fencepost.resume(${waits.job_id})`),
    })
    const dead = await started(db(), type)
    await bury(db(), dead, 'bad input')
    expect((await explain(dead.job_id))[0]).toMatchObject({
      reason: 'dead_letter',
      detail: 'It failed for good in attempt 1: bad input',
    })
    const done = await started(db(), type)
    await complete(db(), done)
    expect((await explain(done.job_id))[0]).toMatchObject({
      reason: 'completed',
      detail: 'It was completed in attempt 1 on worker worker-1.',
    })
    const cancelled = await enqueue(db(), type)
    await db().query('select fencepost.cancel($1)', [cancelled])
    expect((await explain(cancelled))[0]).toMatchObject({
      reason: 'cancelled',
      detail: 'It was cancelled.',
    })
  })

  it('does not exist, or not any more', async () => {
    await refused(explain(987_654_321), 'JE002')
    const done = await started(db(), freshType())
    await complete(db(), done)
    await moveClock(db(), '8 days')
    await maintain(db())
    await refused(explain(done.job_id), 'JE002')
    await restoreClock(db())
  })
})
