import { afterEach, describe, expect, it } from 'vitest'
import { json } from '../../../src/database/database.ts'
import { moveClock, restoreClock } from '../../support/clock.ts'
import {
  claim,
  claimOne,
  complete,
  freshType,
  kinds,
  maintain,
  outcomes,
  places,
  settings,
  started,
  status,
} from '../../support/engine.ts'
import { ownDatabase } from '../../support/server.ts'
import { Session } from '../../support/sessions.ts'
import { one, refused } from '../../support/sql.ts'

const database = ownDatabase()
const db = () => database.db
afterEach(() => restoreClock(db()))

const suspend = (id: number, token: number, rest = '') =>
  db().query(`select fencepost.suspend($1, $2${rest})`, [id, token])
const resume = (id: number, data: unknown = undefined) =>
  db().query('select fencepost.resume($1, $2)', [id, data === undefined ? null : json(data)])
const step = (id: number, token: number, name: string, value: unknown) =>
  one(db(), 'select fencepost.step($1, $2, $3, $4)', [id, token, name, json(value)])

describe('suspend', () => {
  it('takes the job off its worker, and the attempt does not count', async () => {
    const type = freshType()
    const job = await started(db(), type, { max_attempts: 1 })
    await suspend(job.job_id, job.token)
    expect(await status(db(), job.job_id)).toBe('waiting')
    expect(await places(db(), job.job_id)).toEqual(['suspended'])
    expect(await outcomes(db(), job.job_id)).toEqual(['suspended'])
    await refused(complete(db(), job), 'JE001')
    await moveClock(db(), '1 year')
    await maintain(db())
    expect(await status(db(), job.job_id)).toBe('waiting')
    await resume(job.job_id)
    expect(await claimOne(db(), type)).toMatchObject({ job_id: job.job_id, token: 2, attempt: 1 })
    expect(await kinds(db(), job.job_id)).toEqual(['job.suspended', 'job.resumed'])
  })

  it.each([
    ['a delay', `, delay => '1 hour'`],
    ['a moment', `, (fencepost_private.now() + interval '1 hour')`],
  ])('comes back by itself after %s', async (_, rest) => {
    const type = freshType()
    const job = await started(db(), type)
    await suspend(job.job_id, job.token, rest)
    await moveClock(db(), '59 minutes')
    await maintain(db())
    expect(await claim(db(), type)).toEqual([])
    await moveClock(db(), '2 minutes')
    await maintain(db())
    expect(await claimOne(db(), type)).toMatchObject({ job_id: job.job_id, token: 2 })
  })

  it.each([
    ['both times', `, now(), '1 s'`],
    ['a negative delay', `, delay => '-1 s'`],
    ['an endless moment', `, wake_at => 'infinity'`],
    ['an empty name', `, waits_for => ''`],
    ['a name that no step could have', `, waits_for => repeat('x', 201)`],
  ])('refuses %s', async (_, rest) => {
    const job = await started(db(), freshType())
    await refused(suspend(job.job_id, job.token, rest), 'JE003')
    expect(await status(db(), job.job_id)).toBe('running')
  })

  it('refuses a stale token and an unknown job', async () => {
    const job = await started(db(), freshType())
    await refused(suspend(job.job_id, 2), 'JE001')
    await refused(suspend(9_999_999, 1), 'JE002')
  })
})

describe('resume', () => {
  it('hands its data to the next attempt as a step', async () => {
    const type = freshType()
    for (const [rest, name] of [
      ['', 'resume'],
      [`, waits_for => 'approval'`, 'approval'],
    ] as const) {
      const job = await started(db(), type)
      await suspend(job.job_id, job.token, rest)
      await resume(job.job_id, { by: 'ada' })
      const next = await claimOne(db(), type)
      expect(await step(next.job_id, next.token, name, 'not this')).toEqual({ by: 'ada' })
      await complete(db(), next)
    }
  })

  it('works with the longest name that suspend takes', async () => {
    const job = await started(db(), freshType())
    await suspend(job.job_id, job.token, `, waits_for => repeat('x', 200)`)
    await resume(job.job_id, 1)
    expect(await status(db(), job.job_id)).toBe('pending')
  })

  it('refuses a job that is not suspended', async () => {
    const job = await started(db(), freshType())
    expect((await refused(resume(job.job_id), 'JE004')).message).toMatch(
      /is running, not suspended/,
    )
    await refused(resume(9_999_999), 'JE002')
  })

  it('does not stop the housekeeping while its transaction stays open', async () => {
    const type = freshType()
    const [held, due] = [await started(db(), type), await started(db(), type)]
    for (const job of [held, due]) await suspend(job.job_id, job.token, `, delay => '1 s'`)
    await using session = await Session.open(database.url)
    await session.begin()
    await session.query('select fencepost.resume($1)', [held.job_id])
    await moveClock(db(), '2 s')
    await maintain(db())
    expect((await claim(db(), type, 5)).map((job) => job.job_id)).toEqual([due.job_id])
    await session.commit()
    expect((await claim(db(), type, 5)).map((job) => job.job_id)).toEqual([held.job_id])
  })
})

describe('step', () => {
  it('records a value once, and gives it to every later attempt', async () => {
    const type = freshType()
    const job = await started(db(), type)
    expect(await step(job.job_id, 1, 'charge', { id: 7 })).toEqual({ id: 7 })
    expect(await step(job.job_id, 1, 'charge', { id: 8 })).toEqual({ id: 7 })
    expect(await one(db(), `select fencepost.step($1, 1, 'nothing')`, [job.job_id])).toBeNull()
    await one(db(), 'select fencepost.release($1, 1)', [job.job_id])
    const next = await claimOne(db(), type)
    expect(await step(job.job_id, next.token, 'charge', { id: 9 })).toEqual({ id: 7 })
  })

  it('records nothing for an attempt that lost its lease', async () => {
    const type = freshType()
    const job = await started(db(), type)
    await one(db(), 'select fencepost.release($1, 1)', [job.job_id])
    await refused(step(job.job_id, 1, 'late', 1), 'JE001')
    expect(
      await one(db(), 'select count(*) from fencepost_private.step where job_id = $1', [
        job.job_id,
      ]),
    ).toBe(0)
    await refused(step(9_999_999, 1, 'none', 1), 'JE002')
  })

  it('refuses names and values out of bounds', async () => {
    const type = freshType()
    await settings(db(), type, { max_payload_bytes: 100 })
    const job = await started(db(), type)
    await refused(step(job.job_id, 1, '', 1), 'JE003')
    await refused(step(job.job_id, 1, 'x'.repeat(201), 1), 'JE003')
    await refused(db().query('select fencepost.step($1, 1, null)', [job.job_id]), 'JE003')
    expect((await refused(step(job.job_id, 1, 'big', 'x'.repeat(100)), 'JE006')).message).toMatch(
      /the step of job/,
    )
    expect(await step(job.job_id, 1, 'x'.repeat(200), 1)).toBe(1)
  })
})

describe('progress', () => {
  const progress = (id: number, token: number, value: unknown) =>
    db().query('select fencepost.progress($1, $2, $3)', [
      id,
      token,
      value === undefined ? null : json(value),
    ])

  it('keeps the latest', async () => {
    const job = await started(db(), freshType())
    await progress(job.job_id, 1, 0.5)
    await progress(job.job_id, 1, { rows: 10 })
    expect(
      await one(db(), 'select value from fencepost_private.progress where job_id = $1', [
        job.job_id,
      ]),
    ).toEqual({ rows: 10 })
  })

  it('refuses nothing at all, too much, and a stale attempt', async () => {
    const type = freshType()
    await settings(db(), type, { max_payload_bytes: 100 })
    const job = await started(db(), type)
    await refused(progress(job.job_id, 1, undefined), 'JE003')
    await refused(progress(job.job_id, 1, 'x'.repeat(100)), 'JE006')
    await refused(progress(job.job_id, 2, 1), 'JE001')
    await refused(progress(9_999_999, 1, 1), 'JE002')
  })
})
