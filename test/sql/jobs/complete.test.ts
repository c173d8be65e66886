import { describe, expect, it } from 'vitest'
import { json } from '../../../src/database/database.ts'
import {
  claim,
  complete,
  enqueueBatch,
  fail,
  freshType,
  kinds,
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

describe('complete', () => {
  it('ends the job with its result, once', async () => {
    const job = await started(db(), freshType())
    await complete(db(), job, { sent: true })
    expect(await status(db(), job.job_id)).toBe('completed')
    expect(await places(db(), job.job_id)).toEqual([])
    const [event] = await db().query(
      `select kind::text, outcome::text, attempt, token, data, started_at is not null as started, ready_at is not null as ready
       from fencepost_private.event where job_id = $1`,
      [job.job_id],
    )
    expect(event).toEqual({
      kind: 'job.completed',
      outcome: 'completed',
      attempt: 1,
      token: 1,
      data: { sent: true },
      started: true,
      ready: true,
    })
    expect((await refused(complete(db(), job), 'JE001')).detail).toBe('the job is completed')
    expect(await kinds(db(), job.job_id)).toEqual(['job.completed'])
  })

  it('refuses a stale token and an unknown job, and changes nothing', async () => {
    const job = await started(db(), freshType())
    await refused(complete(db(), { ...job, token: 0 }), 'JE001')
    await refused(complete(db(), { ...job, token: 2 }), 'JE001')
    await refused(db().query('select fencepost.complete($1, null)', [job.job_id]), 'JE001')
    await refused(complete(db(), { ...job, job_id: 9_999_999 }), 'JE002')
    await refused(db().query('select fencepost.complete(null, null)'), 'JE002')
    expect(await status(db(), job.job_id)).toBe('running')
  })

  it('is one commit with what the handler wrote', async () => {
    await db().query('create table effect (job_id bigint)')
    const type = freshType()
    const job = await started(db(), type)
    await using session = await Session.open(database.url)
    await session.begin()
    await session.query('insert into effect values ($1)', [job.job_id])
    await session.query('select fencepost.complete($1, $2)', [job.job_id, job.token])
    await session.rollback()
    expect(await status(db(), job.job_id)).toBe('running')
    expect(await one(db(), 'select count(*) from effect')).toBe(0)

    await fail(db(), job)
    await session.begin()
    await session.query('insert into effect values ($1)', [job.job_id])
    await refused(
      session.query('select fencepost.complete($1, $2)', [job.job_id, job.token]),
      'JE001',
    )
    await session.rollback()
    expect(await one(db(), 'select count(*) from effect')).toBe(0)
  })

  it('works in a transaction of any isolation level', async () => {
    for (const level of ['repeatable read', 'serializable']) {
      const job = await started(db(), freshType())
      await using session = await Session.open(database.url)
      await session.begin(level)
      await session.query('select fencepost.complete($1, $2)', [job.job_id, job.token])
      await session.commit()
      expect(await status(db(), job.job_id)).toBe('completed')
    }
  })

  it('refuses a result that is larger than its type allows', async () => {
    const type = freshType()
    await settings(db(), type, { max_payload_bytes: 100 })
    const job = await started(db(), type)
    const refusal = await refused(complete(db(), job, 'x'.repeat(99)), 'JE006')
    expect(refusal.detail).toBe('received 101 bytes; the limit is 100')
    // small in the server's own form, long as text
    await refused(db().query(`select fencepost.complete($1, 1, '1e500')`, [job.job_id]), 'JE006')
    await complete(db(), job, 'x'.repeat(98))
  })
})

describe('complete_many', () => {
  const completeMany = (ids: number[], tokens: number[], results: unknown[] | null = null) =>
    db().query<{ job_id: number; token: number }>(
      'select * from fencepost.complete_many($1, $2, $3) order by 1, 2',
      [ids, tokens, results?.map((each) => json(each)) ?? null],
    )

  it('completes what is held and passes the rest over', async () => {
    const type = freshType()
    await enqueueBatch(db(), type, 4)
    const ids = (await claim(db(), type, 3)).map((job) => job.job_id)
    const rows = await completeMany([...ids, 9_999_999], [1, 2, 1, 1], ['a', 'b', { c: 1 }, null])
    expect(rows).toEqual([
      { job_id: ids[0], token: 1 },
      { job_id: ids[2], token: 1 },
    ])
    expect(await status(db(), ids[1] as number)).toBe('running')
    const text = `select data from fencepost_private.event where job_id = $1`
    expect(await one(db(), text, [ids[0]])).toBe('a')
    expect(await one(db(), text, [ids[2]])).toEqual({ c: 1 })
  })

  it('says which of two attempts of one job it took', async () => {
    const type = freshType()
    const first = await started(db(), type)
    await db().query('select fencepost.release($1, $2)', [first.job_id, first.token])
    const [second] = await claim(db(), type)
    expect(second?.token).toBe(2)
    const id = first.job_id
    expect(await completeMany([id, id], [1, 2])).toEqual([{ job_id: id, token: 2 }])
  })

  it('takes a pair that comes twice once', async () => {
    const job = await started(db(), freshType())
    expect(await completeMany([job.job_id, job.job_id], [1, 1])).toHaveLength(1)
    expect(await kinds(db(), job.job_id)).toEqual(['job.completed'])
  })

  it('is all or nothing when a result is too large', async () => {
    const type = freshType()
    await settings(db(), type, { max_payload_bytes: 100 })
    await enqueueBatch(db(), type, 2)
    const ids = (await claim(db(), type, 2)).map((job) => job.job_id)
    await refused(completeMany(ids, [1, 1], ['fine', 'x'.repeat(200)]), 'JE006')
    expect(await status(db(), ids[0] as number)).toBe('running')
  })

  it('refuses arrays of different length, and does nothing with empty ones', async () => {
    await refused(completeMany([1, 2], [1]), 'JE003')
    for (const results of [['r1'], ['r1', 'r2', 'r3'], []]) {
      const { message, detail } = await refused(completeMany([1, 2], [1, 1], results), 'JE003')
      expect(message).toBe('complete_many needs one of results for each job id, or none at all')
      expect(detail).toBe(`received 2 ids and ${results.length} results`)
    }
    expect(await completeMany([], [])).toEqual([])
    expect(await db().query('select * from fencepost.complete_many(null, null)')).toEqual([])
  })

  it('takes thousands in one call', async () => {
    const type = freshType()
    await enqueueBatch(db(), type, 5000)
    const jobs = await claim(db(), type, 5000)
    const ids = jobs.map((job) => job.job_id)
    expect(
      await completeMany(
        ids,
        ids.map(() => 1),
      ),
    ).toHaveLength(5000)
  })
})
