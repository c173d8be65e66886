import { describe, expect, it } from 'vitest'
import {
  bury,
  claimOne,
  complete,
  enqueue,
  enqueueBatch,
  fail,
  freshType,
  settings,
  started,
  violations,
} from '../../support/engine.ts'
import { ownDatabase } from '../../support/server.ts'
import { one } from '../../support/sql.ts'

const database = ownDatabase()
const db = () => database.db

/** What the check finds after a statement that the engine would never make; rolled back. */
async function sabotage(text: string, ...params: unknown[]): Promise<string[]> {
  const found: string[] = []
  await db()
    .transaction(async (tx) => {
      await tx.query(text, params)
      for (const row of await violations(tx)) found.push(`${row.invariant}: ${row.detail}`)
      throw new Error('roll back')
    })
    .catch((error: Error) => {
      if (error.message !== 'roll back') throw error
    })
  return found
}

describe('check_invariants', () => {
  it('finds nothing after a full life of many jobs', async () => {
    const type = freshType()
    await settings(db(), type, { backoff_base: '0' })
    await enqueueBatch(db(), type, 5)
    await enqueue(db(), type, { idempotency_key: 'k', delay: '1 hour' })
    await complete(db(), await claimOne(db(), type))
    await fail(db(), await claimOne(db(), type))
    const dead = await claimOne(db(), type)
    await bury(db(), dead)
    await db().query('select fencepost.replay($1)', [dead.job_id])
    const waits = await claimOne(db(), type)
    await db().query('select fencepost.suspend($1, $2)', [waits.job_id, waits.token])
    const released = await claimOne(db(), type)
    await db().query('select fencepost.release($1, $2)', [released.job_id, released.token])
    await claimOne(db(), type)
    expect(await violations(db())).toEqual([])
    expect(await db().query('select * from fencepost.check_invariants(bodies => null)')).toEqual([])
  })

  it('finds each kind of damage', async () => {
    const type = freshType()
    const ready = await enqueue(db(), type, { idempotency_key: 'mine' })
    const running = await started(db(), type, { priority: 9 })
    const done = await started(db(), type, { priority: 9 })
    await complete(db(), done)
    const [mine, held, over] = [ready, running.job_id, done.job_id]
    const place = 'fencepost_private'
    const cases: [string, string, string][] = [
      [
        `insert into ${place}.delayed select id, ready_at, lane_id, attempts, token from ${place}.ready where id = ${mine}`,
        'a job is in one place',
        `job ${mine} is in`,
      ],
      [
        `insert into ${place}.delayed select ${over}, ready_at, lane_id, 0, 0 from ${place}.ready where id = ${mine}`,
        'a job that has ended is in no place',
        `job ${over} has job.completed`,
      ],
      [
        `delete from ${place}.job where id = ${mine}`,
        'a job in a place has a body',
        `job ${mine} is in ready`,
      ],
      [
        `update ${place}.ready set lane_id = 999999 where id = ${mine}`,
        'a place names a lane',
        `job ${mine} in ready`,
      ],
      [
        `delete from ${place}.ready where id = ${mine}`,
        'a job is in a place or has ended',
        `job ${mine} is nowhere`,
      ],
      [
        `insert into ${place}.event (xid, at, kind, job_id) select xid, at, 'job.cancelled', job_id from ${place}.event where job_id = ${over}`,
        'a job ends once',
        `job ${over} has job.completed, job.cancelled`,
      ],
      [
        `insert into ${place}.event (xid, at, kind, outcome, job_id, token) select xid, at, 'job.released', 'released', job_id, token from ${place}.event where job_id = ${over}`,
        'an attempt ends once',
        `attempt of job ${over} under token 1`,
      ],
      [
        `update ${place}.ready set token = 3 where id = ${mine}`,
        'places agree with the log',
        `job ${mine} is in ready with attempts 0, token 3`,
      ],
      [
        `update ${place}.lease set attempts = 2 where id = ${held}`,
        'places agree with the log',
        `job ${held} is in lease with attempts 2`,
      ],
      [
        `update ${place}.lease set worker_id = 999999 where id = ${held}`,
        'a lease belongs to a worker',
        'is unknown',
      ],
      [
        `update ${place}.worker set swept = true where worker_id = (select worker_id from ${place}.lease where id = ${held})`,
        'a lease belongs to a worker',
        'is closed',
      ],
      [
        `insert into ${place}.depth_delta (type_id, xid, ready) select type_id, ${place}.xid(), 1 from ${place}.job_type where type = '${type}'`,
        'counters agree with the places',
        `type ${type}`,
      ],
      [
        `update ${place}.idempotency_key set job_id = ${over} where key = 'mine'`,
        'an idempotency key names its job',
        `names job ${over}`,
      ],
      [
        `update ${place}.origin set written_by = 7`,
        `transaction numbers are this server's`,
        'after_restore',
      ],
      [
        `insert into ${place}.lane_hint (lane_id, wx, wi, late_x, late_i, held, at) select lane_id, xid + 1, 0, '{}', '{}', '{}', ${place}.now() from ${place}.ready where id = ${mine}`,
        'no claim misses a ready job',
        `job ${mine} lies below`,
      ],
    ]
    for (const [statement, invariant, detail] of cases) {
      const found = await sabotage(statement)
      expect(found, statement).toContainEqual(expect.stringContaining(`${invariant}: `))
      expect(found.join('\n'), statement).toContain(detail)
    }
    expect(await violations(db())).toEqual([])
  })

  it('can look at the newest bodies alone', async () => {
    const type = freshType()
    const [old] = await enqueueBatch(db(), type, 1)
    await enqueueBatch(db(), type, 50)
    await db()
      .transaction(async (tx) => {
        await tx.query('delete from fencepost_private.ready where id = $1', [old])
        const nowhere = (bodies: number | null) =>
          one<number>(
            tx,
            `select count(*) from fencepost.check_invariants($1) where invariant = 'a job is in a place or has ended'`,
            [bodies],
          )
        expect([await nowhere(10), await nowhere(null)]).toEqual([0, 1])
        throw new Error('roll back')
      })
      .catch((error: Error) => expect(error.message).toBe('roll back'))
  })
})
