import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { moveClock, restoreClock } from '../support/clock.ts'
import {
  bury,
  claim,
  claimOne,
  complete,
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
import { sabotage } from '../support/sabotage.ts'
import { type TestDatabase, testDatabase } from '../support/server.ts'
import { Session } from '../support/sessions.ts'
import { one, refused } from '../support/sql.ts'

let database: TestDatabase
const db = () => database.db
beforeAll(async () => {
  database = await testDatabase()
})
afterAll(async () => {
  expect(await violations(db())).toEqual([])
  await database.drop()
})

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

describe('complete x cancel', () => {
  it('a request to cancel waits for an open completion, and comes too late', async () => {
    const job = await started(db(), freshType())
    await using a = await Session.open(database.url)
    await using b = await Session.open(database.url)
    await a.begin()
    await a.query(COMPLETE, [job.job_id, job.token])
    const waiting = await b.blocks('select fencepost.cancel($1)', [job.job_id])
    await a.commit()
    await refused(waiting.answer, 'JE004')
    expect(await kinds(db(), job.job_id)).toEqual(['job.completed'])
  })

  it('a completion waits for an open request, and wins', async () => {
    const job = await started(db(), freshType())
    await using a = await Session.open(database.url)
    await using b = await Session.open(database.url)
    await a.begin()
    await a.query('select fencepost.cancel($1)', [job.job_id])
    const waiting = await b.blocks(COMPLETE, [job.job_id, job.token])
    await a.commit()
    await waiting.answer
    expect(await kinds(db(), job.job_id)).toEqual(['job.cancel_requested', 'job.completed'])
  })

  it('a failure that waited for the request ends as cancelled', async () => {
    const job = await started(db(), freshType())
    await using a = await Session.open(database.url)
    await using b = await Session.open(database.url)
    await a.begin()
    await a.query('select fencepost.cancel($1)', [job.job_id])
    const waiting = await b.blocks<{ verdict: string }>(
      'select fencepost.fail($1, $2) as verdict',
      [job.job_id, job.token],
    )
    await a.commit()
    expect(await waiting.answer).toEqual([{ verdict: 'cancelled' }])
  })

  it('a job that steps aside while it is being cancelled is refused', async () => {
    const job = await started(db(), freshType())
    await using a = await Session.open(database.url)
    await using b = await Session.open(database.url)
    await a.begin()
    await a.query('select fencepost.cancel($1)', [job.job_id])
    const waiting = await b.blocks('select fencepost.suspend($1, $2)', [job.job_id, job.token])
    await a.commit()
    await refused(waiting.answer, 'JE004')
    expect(await places(db(), job.job_id)).toEqual(['lease'])
  })

  it('cancelling many and settling completed and failed ones do not deadlock', async () => {
    const type = freshType()
    const worker = await one<number>(db(), `select fencepost.register_worker('both')`)
    await using a = await Session.open(database.url)
    await using b = await Session.open(database.url)
    const cancels = 'select * from fencepost_private.cancel_jobs($1, null, fencepost_private.now())'
    const settles = `select directive from fencepost.exchange($1, $2, array_fill(1, array[cardinality($2::bigint[])]), null, $3, array_fill(1, array[cardinality($3::bigint[])]))`
    for (let round = 0; round < 20; round++) {
      await enqueueBatch(db(), type, 40)
      const rows = await db().query<{ job_id: number }>(
        `select job_id from fencepost.exchange($1, types => array[$2::text], max => 40)`,
        [worker, type],
      )
      const ids = rows.map((row) => row.job_id)
      // the higher half completed, the lower half failed: without one order for both, each would wait for the other
      await Promise.all([
        a.query(settles, [worker, ids.slice(20), ids.slice(0, 20)]),
        b.query(cancels, [[...ids].reverse()]),
      ])
      await db().query(`select fencepost_private.cancel_jobs($1, null, fencepost_private.now())`, [
        ids,
      ])
    }
  })
  describe('with completed and failed jobs settled in one order', () => {
    /** A round that settles two jobs, the younger as completed, while somebody cancels both and waits for the older. */
    async function cross(
      url: string,
      worker: number,
      type: string,
    ): Promise<PromiseSettledResult<unknown>[]> {
      await using first = await Session.open(url)
      await using canceller = await Session.open(url)
      await using round = await Session.open(url)
      await first.query(`select fencepost.enqueue_batch($1, array_fill('{}'::jsonb, array[2]))`, [
        type,
      ])
      const [older, younger] = (
        await first.query<{ job_id: number }>(
          `select job_id from fencepost.exchange($1, types => array[$2::text], max => 2)`,
          [worker, type],
        )
      ).map((row) => row.job_id)
      await first.begin()
      await first.query('select fencepost.cancel($1)', [older])
      const cancels = await canceller.blocks(
        'select * from fencepost_private.cancel_jobs($1, null, fencepost_private.now())',
        [[older, younger]],
      )
      const settles = await round.blocks(
        `select directive from fencepost.exchange($1, array[$2::bigint], array[1], null, array[$3::bigint], array[1])`,
        [worker, younger, older],
      )
      await first.commit()
      return await Promise.allSettled([cancels.answer, settles.answer])
    }

    it('does not deadlock with one who cancels both; without that order it would', async () => {
      await using own = await testDatabase()
      const worker = await one<number>(own.db, `select fencepost.register_worker('round')`)
      const type = freshType()
      const sound = await cross(own.url, worker, type)
      expect(sound.map((each) => each.status)).toEqual(['fulfilled', 'fulfilled'])
      await sabotage(own.db, 'hold_leases(bigint[])', 'where l.id = any (p_ids)', 'where false')
      const broken = await cross(own.url, worker, type)
      expect(broken.map((each) => each.status).sort()).toEqual(['fulfilled', 'rejected'])
      const failure = broken.find((each) => each.status === 'rejected') as PromiseRejectedResult
      expect(failure.reason).toMatchObject({ code: '40P01' })
    })
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

describe('a handler that writes in its own transaction', () => {
  it('keeps its lease against the sweep by a step, and neither heartbeats nor cancel wait for it', async () => {
    const type = freshType()
    const id = await one<number>(db(), `select fencepost.register_worker('writer', ttl => '10 s')`)
    const job = await started(db(), type, {}, 'writer')
    await using handler = await Session.open(database.url)
    await handler.begin()
    await handler.query(`select fencepost.step($1, $2, 'half')`, [job.job_id, job.token])
    for (let n = 0; n < 12; n++) {
      await moveClock(db(), '3 s')
      await db().query('select fencepost.heartbeat($1, $2, $3, $4)', [
        'writer',
        [job.job_id],
        [1],
        id,
      ])
      await maintain(db())
    }
    expect(await one(db(), 'select fencepost.cancel($1)', [job.job_id])).toBe('cancel_requested')
    await handler.commit()
    await maintain(db())
    expect(await places(db(), job.job_id)).toEqual(['lease'])
    await complete(db(), job)
    await restoreClock(db())
  })

  it('does not hold up the heartbeat of its worker by an open completion', async () => {
    const id = await one<number>(
      db(),
      `select fencepost.register_worker('finisher', ttl => '10 s')`,
    )
    const job = await started(db(), freshType(), {}, 'finisher')
    await using handler = await Session.open(database.url)
    await handler.begin()
    await handler.query(COMPLETE, [job.job_id, job.token])
    await moveClock(db(), '15 s')
    const rows = await db().query('select * from fencepost.heartbeat($1, $2, $3, $4)', [
      'finisher',
      [job.job_id],
      [1],
      id,
    ])
    expect(rows).toEqual([])
    await handler.commit()
    await restoreClock(db())
  })

  it('whose round waits for an open request to cancel lets heartbeats go on', async () => {
    const id = await one<number>(db(), `select fencepost.register_worker('rounds', ttl => '10 s')`)
    const job = await started(db(), freshType(), {}, 'rounds')
    await using operator = await Session.open(database.url)
    await using worker = await Session.open(database.url)
    await operator.begin()
    await operator.query('select fencepost.cancel($1)', [job.job_id])
    await moveClock(db(), '5 s')
    const round = await worker.blocks(
      'select * from fencepost.exchange($1, array[$2::bigint], array[1])',
      [id, job.job_id],
    )
    await db().query('select fencepost.heartbeat($1, worker_id => $2)', ['rounds', id])
    await operator.commit()
    await round.answer
    expect(await status(db(), job.job_id)).toBe('completed')
    await restoreClock(db())
  })
})
