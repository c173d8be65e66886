import { afterAll, describe, expect, it } from 'vitest'
import { enqueueBatch, freshType, kinds, places, started, violations } from '../support/engine.ts'
import { sabotage } from '../support/sabotage.ts'
import { ownDatabase, testDatabase } from '../support/server.ts'
import { Session } from '../support/sessions.ts'
import { one, refused } from '../support/sql.ts'

const database = ownDatabase()
const db = () => database.db
afterAll(async () => expect(await violations(db())).toEqual([]))

const COMPLETE = 'select fencepost.complete($1, $2)'

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
      // which of two that wake at once goes first is not ours to say: a few tries are enough to see them meet
      let broken: PromiseSettledResult<unknown>[] = []
      for (let tries = 0; tries < 10 && !broken.some(isRejected); tries++) {
        broken = await cross(own.url, worker, type)
      }
      expect(broken.map((each) => each.status).sort()).toEqual(['fulfilled', 'rejected'])
      const failure = broken.find(isRejected)
      expect(failure?.reason).toMatchObject({ code: '40P01' })
    })
  })
})

function isRejected(each: PromiseSettledResult<unknown>): each is PromiseRejectedResult {
  return each.status === 'rejected'
}
