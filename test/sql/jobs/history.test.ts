import { afterEach, describe, expect, it } from 'vitest'
import { freezeClock, moveClock, restoreClock } from '../../support/clock.ts'
import {
  claimOne,
  complete,
  enqueue,
  fail,
  freshType,
  maintain,
  settings,
  violations,
} from '../../support/engine.ts'
import { ownDatabase } from '../../support/server.ts'
import { one } from '../../support/sql.ts'

const database = ownDatabase()
const db = () => database.db
afterEach(() => restoreClock(db()))

describe('the history of a job', () => {
  it('tells its whole life: every transition once, in order, with its attempt, token, worker and actor', async () => {
    const type = freshType()
    await settings(db(), type, {
      publish_enqueued: true,
      publish_started: true,
      backoff_jitter: 0,
      backoff_base: '10 s',
    })
    await freezeClock(db(), new Date('2030-01-01T00:00:00Z'))
    const id = await enqueue(db(), type, { max_attempts: 3, delay: '1 s' })
    const step = async (seconds: number, act: () => Promise<unknown>) => {
      await moveClock(db(), `${seconds} s`)
      await maintain(db())
      await act()
    }
    await step(10, () => claimOne(db(), type, 'w1'))
    await step(10, () => db().query('select fencepost.release($1, 1)', [id]))
    await step(10, () => claimOne(db(), type, 'w1'))
    await step(10, () =>
      db().query(`select fencepost.suspend($1, 2, delay => '5 s', waits_for => 'tea')`, [id]),
    )
    await step(10, () => claimOne(db(), type, 'w2'))
    await step(1, () => db().query(`select fencepost.fail($1, 3, 'once')`, [id]))
    await step(20, () => claimOne(db(), type, 'w2'))
    await step(1, () => db().query(`select fencepost.register_worker('w2')`))
    await step(1, () => claimOne(db(), type, 'w1'))
    await step(1, () => fail(db(), { job_id: id, token: 5 } as never, 'thrice'))
    await step(1, () => db().query('select fencepost.replay($1)', [id]))
    await step(1, () => db().query('select fencepost.reprioritize($1, 9)', [id]))
    await step(1, () => claimOne(db(), type, 'w1'))
    await step(1, () => db().query(`select fencepost.cancel($1, 'enough')`, [id]))
    await step(1, () => complete(db(), { job_id: id, token: 6 } as never, 42))

    const rows = await db().query<Record<string, unknown>>(
      `select e.kind::text, e.outcome::text, e.attempt, e.token, w.name as worker, e.actor is not null as by_hand
       from fencepost_private.event e left join fencepost_private.worker w on w.worker_id = e.worker_id
       where e.job_id = $1 order by e.id`,
      [id],
    )
    const told = rows.map(({ kind, outcome, attempt, token, worker, by_hand }) =>
      [kind, outcome, attempt, token, worker, by_hand ? 'by hand' : null]
        .map((each) => each ?? '-')
        .join(' '),
    )
    expect(told).toEqual([
      'job.enqueued - - - - -',
      'job.started - 1 1 w1 -',
      'job.released released 1 1 w1 -',
      'job.started - 1 2 w1 -',
      'job.suspended suspended 1 2 w1 -',
      'job.resumed - 0 2 - by hand',
      'job.started - 1 3 w2 -',
      'job.retry_scheduled failed 1 3 w2 -',
      'job.started - 2 4 w2 -',
      'job.retry_scheduled lease_expired 2 4 w2 -',
      'job.started - 3 5 w1 -',
      'job.dead_lettered failed 3 5 w1 -',
      'job.replayed - 3 5 - by hand',
      'job.reprioritized - 0 5 - by hand',
      'job.started - 1 6 w1 -',
      'job.cancel_requested - 1 6 w1 by hand',
      'job.completed completed 1 6 w1 -',
    ])
    const [attempts] = await db().query<{ tokens: number[]; waits: number[] }>(
      `select array_agg(e.token order by e.token) as tokens,
              array_agg(extract(epoch from e.started_at - e.ready_at)::int order by e.token) as waits
       from fencepost_private.event e where e.job_id = $1 and e.outcome is not null`,
      [id],
    )
    expect(attempts?.tokens).toEqual([1, 2, 3, 4, 5, 6])
    expect(attempts?.waits.every((wait) => wait >= 0)).toBe(true)
    expect(
      await one(
        db(),
        `select data from fencepost_private.event where job_id = $1 and kind = 'job.completed'`,
        [id],
      ),
    ).toBe(42)
    expect(await violations(db())).toEqual([])
  })

  it('shows starts and the enqueue also when the type does not store them', async () => {
    const type = freshType()
    const id = await enqueue(db(), type)
    const job = await claimOne(db(), type)
    const kinds = () =>
      db()
        .query<{ kind: string }>(
          'select kind from fencepost.job_events where job_id = $1 order by created_at, id nulls first',
          [id],
        )
        .then((rows) => rows.map((row) => row.kind))
    expect(await kinds()).toEqual(['job.enqueued', 'job.started'])
    await complete(db(), job)
    expect(await kinds()).toEqual(['job.enqueued', 'job.started', 'job.completed'])
  })
})
