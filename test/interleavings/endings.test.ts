import { afterAll, describe, expect, it } from 'vitest'
import { moveClock, restoreClock } from '../support/clock.ts'
import {
  bury,
  claim,
  claimOne,
  enqueueBatch,
  freshType,
  kinds,
  maintain,
  outcomes,
  places,
  started,
  status,
  violations,
} from '../support/engine.ts'
import { ownDatabase } from '../support/server.ts'
import { Session } from '../support/sessions.ts'
import { refused } from '../support/sql.ts'

const database = ownDatabase()
const db = () => database.db
afterAll(async () => expect(await violations(db())).toEqual([]))

const COMPLETE = 'select fencepost.complete($1, $2)'
const lose = (name: string) => db().query('select fencepost.register_worker($1)', [name])

describe('complete x reclaim', () => {
  it('an open completion is not taken back, and stands when it commits', async () => {
    const job = await started(db(), freshType(), {}, 'slow')
    await using a = await Session.open(database.url)
    await a.begin()
    await a.query(COMPLETE, [job.job_id, job.token])
    await lose('slow')
    await maintain(db())
    await a.commit()
    await maintain(db())
    expect(await status(db(), job.job_id)).toBe('completed')
    expect(await outcomes(db(), job.job_id)).toEqual(['completed'])
  })

  it('an open completion that rolls back is taken back at the next look', async () => {
    const job = await started(db(), freshType(), {}, 'slow')
    await using a = await Session.open(database.url)
    await a.begin()
    await a.query(COMPLETE, [job.job_id, job.token])
    await lose('slow')
    await maintain(db())
    await a.rollback()
    await maintain(db())
    expect(await outcomes(db(), job.job_id)).toEqual(['lease_expired'])
  })

  it('a completion waits for a sweep in flight, and is refused when that took the job', async () => {
    const job = await started(db(), freshType(), {}, 'slow')
    await lose('slow')
    await using a = await Session.open(database.url)
    await using b = await Session.open(database.url)
    await a.begin()
    await a.query('select fencepost_private.reclaim()')
    const waiting = await b.blocks(COMPLETE, [job.job_id, job.token])
    await a.commit()
    await refused(waiting.answer, 'JE001')
    expect(await places(db(), job.job_id)).toEqual(['ready'])
  })

  it('a completion in repeatable read is refused as well, by the server', async () => {
    const type = freshType()
    const job = await started(db(), type, {}, 'slow')
    await using a = await Session.open(database.url)
    await a.begin('repeatable read')
    await a.query('select count(*) from fencepost_private.lease')
    await lose('slow')
    await maintain(db())
    await claimOne(db(), type)
    await refused(a.query(COMPLETE, [job.job_id, job.token]), '40001')
    await a.rollback()
  })
})

describe('complete x complete', () => {
  it('one of two is taken', async () => {
    const job = await started(db(), freshType())
    await using a = await Session.open(database.url)
    await using b = await Session.open(database.url)
    await a.begin()
    await a.query(COMPLETE, [job.job_id, job.token])
    const waiting = await b.blocks(COMPLETE, [job.job_id, job.token])
    await a.commit()
    await refused(waiting.answer, 'JE001')
    expect(await kinds(db(), job.job_id)).toEqual(['job.completed'])
  })

  it('the second is taken when the first rolls back', async () => {
    const job = await started(db(), freshType())
    await using a = await Session.open(database.url)
    await using b = await Session.open(database.url)
    await a.begin()
    await a.query(COMPLETE, [job.job_id, job.token])
    const waiting = await b.blocks(COMPLETE, [job.job_id, job.token])
    await a.rollback()
    await waiting.answer
    expect(await status(db(), job.job_id)).toBe('completed')
  })

  it('batches with the same jobs in opposite orders do not deadlock', async () => {
    const type = freshType()
    await enqueueBatch(db(), type, 200)
    const ids = (await claim(db(), type, 200)).map((job) => job.job_id)
    const call = 'select count(*) as done from fencepost.complete_many($1, $2)'
    const sessions = await Promise.all([1, 2, 3, 4].map(() => Session.open(database.url)))
    for (let n = 0; n < 200; n += 20) {
      const some = ids.slice(n, n + 20)
      const answers = await Promise.all(
        sessions.map((session, which) => {
          const order = which % 2 ? some : [...some].reverse()
          return session.query<{ done: number }>(call, [order, order.map(() => 1)])
        }),
      )
      expect(answers.reduce((sum, rows) => sum + (rows[0]?.done ?? 0), 0)).toBe(20)
    }
    for (const session of sessions) await session[Symbol.asyncDispose]()
  })
})

describe('replay x replay', () => {
  it('one of two is taken, and the job is ready once', async () => {
    const type = freshType()
    const job = await started(db(), type)
    await bury(db(), job)
    await using a = await Session.open(database.url)
    await using b = await Session.open(database.url)
    await a.begin()
    await a.query('select fencepost.replay($1)', [job.job_id])
    const waiting = await b.blocks('select fencepost.replay($1)', [job.job_id])
    await a.commit()
    await refused(waiting.answer, 'JE004')
    expect(await places(db(), job.job_id)).toEqual(['ready'])
    expect(await kinds(db(), job.job_id)).toEqual(['job.dead_lettered', 'job.replayed'])
  })

  it('loses against a discard in flight, and wins when that rolls back', async () => {
    const type = freshType()
    for (const ends of ['commit', 'rollback'] as const) {
      const job = await started(db(), type)
      await bury(db(), job)
      await using a = await Session.open(database.url)
      await using b = await Session.open(database.url)
      await a.begin()
      await a.query('select fencepost.discard($1)', [job.job_id])
      const waiting = await b.blocks('select fencepost.replay($1)', [job.job_id])
      await a[ends]()
      if (ends === 'commit') await refused(waiting.answer, 'JE004')
      else await waiting.answer
      expect(await status(db(), job.job_id)).toBe(ends === 'commit' ? 'discarded' : 'pending')
    }
  })

  it('of overlapping sets in opposite orders does not deadlock', async () => {
    const type = freshType()
    await enqueueBatch(db(), type, 100)
    const jobs = await claim(db(), type, 100)
    for (const job of jobs) await bury(db(), job)
    const ids = jobs.map((job) => job.job_id)
    const sessions = await Promise.all([1, 2, 3, 4].map(() => Session.open(database.url)))
    const answers = await Promise.all(
      sessions.map((session, which) =>
        session.query<{ moved: number }>(
          which % 2
            ? 'select fencepost_private.replay_jobs($1) as moved'
            : 'select fencepost_private.discard_jobs($1, null) as moved',
          [which < 2 ? ids : [...ids].reverse()],
        ),
      ),
    )
    expect(answers.reduce((sum, rows) => sum + (rows[0]?.moved ?? 0), 0)).toBe(100)
    for (const session of sessions) await session[Symbol.asyncDispose]()
  })
})

describe('resume x housekeeping', () => {
  it('does not resume again what was resumed, claimed and suspended for longer meanwhile', async () => {
    const type = freshType()
    const job = await started(db(), type)
    await db().query(`select fencepost.suspend($1, 1, delay => '1 s')`, [job.job_id])
    await moveClock(db(), '2 s')
    await using a = await Session.open(database.url)
    await a.begin()
    await a.query('select fencepost.resume($1)', [job.job_id])
    await a.query(`select fencepost.claim('worker-1', array[$1::text])`, [type])
    await a.query(`select fencepost.suspend($1, 2, delay => '1 hour')`, [job.job_id])
    await maintain(db())
    await a.commit()
    await maintain(db())
    expect(await places(db(), job.job_id)).toEqual(['suspended'])
    await restoreClock(db())
  })
})
