import { describe, expect, it } from 'vitest'
import { moveClock, restoreClock } from '../../support/clock.ts'
import {
  claim,
  claimOne,
  complete,
  enqueue,
  enqueueBatch,
  fail,
  freshType,
  kinds,
  maintain,
  outcomes,
  places,
  started,
  status,
} from '../../support/engine.ts'
import { ownDatabase } from '../../support/server.ts'
import { Session } from '../../support/sessions.ts'
import { one, refused } from '../../support/sql.ts'

const database = ownDatabase()
const db = () => database.db

const cancel = (id: number, reason: string | null = null) =>
  one<string>(db(), 'select fencepost.cancel($1, $2)', [id, reason])
const event = async (id: number, kind: string) =>
  (
    await db().query('select * from fencepost_private.event where job_id = $1 and kind = $2', [
      id,
      kind,
    ])
  )[0]

describe('cancel', () => {
  it('ends a pending job at once', async () => {
    const type = freshType()
    const id = await enqueue(db(), type)
    expect(await cancel(id, 'changed my mind')).toBe('cancelled')
    expect(await status(db(), id)).toBe('cancelled')
    expect(await places(db(), id)).toEqual([])
    expect(await claim(db(), type)).toEqual([])
    expect(await event(id, 'job.cancelled')).toMatchObject({
      data: { reason: 'changed my mind' },
      actor: expect.any(String),
      outcome: null,
    })
  })

  it('ends a delayed job and a waiting one', async () => {
    const delayed = await enqueue(db(), freshType(), { delay: '1 hour' })
    expect(await cancel(delayed)).toBe('cancelled')
    const waiting = await started(db(), freshType())
    await one(db(), 'select fencepost.suspend($1, $2)', [waiting.job_id, waiting.token])
    expect(await cancel(waiting.job_id)).toBe('cancelled')
    const parked = await enqueue(db(), freshType())
    await db().query(
      `with gone as (delete from fencepost_private.ready where id = $1 returning *)
       insert into fencepost_private.parked (id, lane_id, attempts, token, parked_at, waits_for)
       select id, lane_id, attempts, token, ready_at, 'key' from gone`,
      [parked],
    )
    expect(await cancel(parked)).toBe('cancelled')
    for (const id of [delayed, waiting.job_id, parked]) {
      expect(await status(db(), id)).toBe('cancelled')
      expect(await places(db(), id)).toEqual([])
    }
  })

  it('asks a running one to stop, and tells its worker by notification', async () => {
    await using session = await Session.open(database.url)
    const heard = await session.listen('fencepost')
    const job = await started(db(), freshType(), {}, 'busy')
    const worker = await one<number>(
      db(),
      `select worker_id from fencepost_private.worker where name = 'busy'`,
    )
    expect(await cancel(job.job_id, 'too late')).toBe('cancel_requested')
    expect(await cancel(job.job_id)).toBe('cancel_requested')
    expect(await status(db(), job.job_id)).toBe('running')
    expect(await kinds(db(), job.job_id)).toEqual(['job.cancel_requested'])
    await session.query('select 1')
    expect(heard.map((text) => JSON.parse(text))).toEqual([{ worker, cancel: [job.job_id] }])
    expect(await fail(db(), job, 'aborted')).toBe('cancelled')
    expect(await status(db(), job.job_id)).toBe('cancelled')
    expect(await outcomes(db(), job.job_id)).toEqual(['cancelled'])
    expect((await event(job.job_id, 'job.cancelled'))?.data).toMatchObject({
      reason: 'too late',
      error: 'aborted',
    })
  })

  it('lets a running one end well', async () => {
    const job = await started(db(), freshType())
    await cancel(job.job_id)
    await complete(db(), job, 'made it')
    expect(await status(db(), job.job_id)).toBe('completed')
  })

  it('cancels what is given back, taken back or timed out after it was asked for', async () => {
    const type = freshType()
    const released = await started(db(), type)
    await cancel(released.job_id)
    await one(db(), 'select fencepost.release($1, $2)', [released.job_id, released.token])
    expect(await status(db(), released.job_id)).toBe('cancelled')
    expect(await outcomes(db(), released.job_id)).toEqual(['cancelled'])

    const orphan = await started(db(), type, {}, 'mortal')
    await cancel(orphan.job_id)
    await db().query(`select fencepost.register_worker('mortal')`)
    await maintain(db())
    expect(await status(db(), orphan.job_id)).toBe('cancelled')
    expect(await outcomes(db(), orphan.job_id)).toEqual(['lease_expired'])

    const slow = await started(db(), type, { timeout: '5 s' })
    await cancel(slow.job_id)
    await moveClock(db(), '6 s')
    await maintain(db())
    await restoreClock(db())
    expect(await status(db(), slow.job_id)).toBe('cancelled')
    expect(await outcomes(db(), slow.job_id)).toEqual(['timed_out'])
    expect(await claim(db(), type, 10)).toEqual([])
  })

  it('does not let a job step aside that should stop', async () => {
    const job = await started(db(), freshType())
    await cancel(job.job_id)
    await refused(db().query('select fencepost.suspend($1, $2)', [job.job_id, job.token]), 'JE004')
  })

  it('refuses what has ended, a dead letter, and an unknown job', async () => {
    const done = await started(db(), freshType())
    await complete(db(), done)
    expect((await refused(cancel(done.job_id), 'JE004')).message).toMatch(/is completed/)
    const gone = await enqueue(db(), freshType())
    await cancel(gone)
    await refused(cancel(gone), 'JE004')
    const dead = await started(db(), freshType(), { max_attempts: 1 })
    await fail(db(), dead)
    expect((await refused(cancel(dead.job_id), 'JE004')).hint).toMatch(/discard/)
    await refused(cancel(9_999_999), 'JE002')
    await refused(db().query('select fencepost.cancel(null)'), 'JE002')
  })

  it('keeps quiet when notifications are switched off', async () => {
    await using listener = await Session.open(database.url)
    const heard = await listener.listen('fencepost')
    const job = await started(db(), freshType())
    await using quiet = await Session.open(database.url)
    await quiet.query(`set fencepost.wake = 'off'`)
    await quiet.query('select fencepost.cancel($1)', [job.job_id])
    await listener.query('select 1')
    expect(heard).toEqual([])
  })

  it('tells of many at once in notifications that are short enough', async () => {
    const type = freshType()
    await enqueueBatch(db(), type, 5000)
    const ids = (await claim(db(), type, 5000, 'giant')).map((job) => job.job_id)
    const verdicts = await db().query<{ verdict: string }>(
      'select verdict from fencepost_private.cancel_jobs($1, null, fencepost_private.now())',
      [ids],
    )
    expect(verdicts).toHaveLength(5000)
    expect(new Set(verdicts.map((row) => row.verdict))).toEqual(new Set(['cancel_requested']))
  })

  it('says nothing of a job that is not leased, dead or ended, in the form for many', async () => {
    const type = freshType()
    const pending = await enqueue(db(), type)
    const dead = await started(db(), freshType(), { max_attempts: 1 })
    await fail(db(), dead)
    const rows = await db().query(
      'select * from fencepost_private.cancel_jobs($1, null, fencepost_private.now())',
      [[pending, dead.job_id, 9_999_999]],
    )
    expect(rows).toEqual([{ job_id: pending, verdict: 'cancelled' }])
    await enqueue(db(), type)
    expect(await claimOne(db(), type)).toBeTruthy()
  })
})
