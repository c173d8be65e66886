import { afterAll, describe, expect, it } from 'vitest'
import { moveClock, restoreClock } from '../support/clock.ts'
import {
  complete,
  freshType,
  maintain,
  places,
  started,
  status,
  violations,
} from '../support/engine.ts'
import { ownDatabase } from '../support/server.ts'
import { Session } from '../support/sessions.ts'
import { one } from '../support/sql.ts'

const database = ownDatabase()
const db = () => database.db
afterAll(async () => expect(await violations(db())).toEqual([]))

const COMPLETE = 'select fencepost.complete($1, $2)'

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
