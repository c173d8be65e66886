import { afterAll, beforeAll, expect, it } from 'vitest'
import { Random } from '../faults/random.ts'
import { maintain, settings, violations } from '../support/engine.ts'
import { type TestDatabase, testDatabase } from '../support/server.ts'
import { Session } from '../support/sessions.ts'
import { column, one } from '../support/sql.ts'

// Everything at once: enqueuers that are slow, roll back, hold old snapshots and use savepoints; claims inside of
// enqueuing transactions, left open, rolled back; workers that die and that forget; limits; housekeeping throughout.
// At the end every job that was committed has ended exactly once. FENCEPOST_STORM_SECONDS makes it longer.

const SECONDS = Number(process.env.FENCEPOST_STORM_SECONDS ?? 4)
const TYPES = ['a', 'b', 'c', 'limited-5', 'limited-7']
const FREE = ['a', 'b', 'c']

let database: TestDatabase
const db = () => database.db
beforeAll(async () => {
  database = await testDatabase()
  for (const type of TYPES) {
    await settings(db(), type, { max_attempts: 1000, backoff_base: '50 ms' })
    for (const priority of [2, 5, 8]) {
      await db().query('select fencepost_private.ensure_lane($1, $2)', [type, priority])
    }
  }
  await settings(db(), 'limited-5', { max_running: 5 })
  await settings(db(), 'limited-7', { max_running: 7 })
})
afterAll(() => database.drop())

it(`loses nothing and ends nothing twice in a storm of ${SECONDS} s`, {
  timeout: SECONDS * 1000 + 60_000,
}, async () => {
  const random = new Random()
  console.log(`seed ${random.seed} (FENCEPOST_SEED)`)
  const storm = new Storm(random)
  await storm.run(SECONDS * 1000)

  expect(storm.surprises).toEqual([])
  expect(storm.isOver).toBe(false)
  expect(await violations(db())).toEqual([])
  const [count] = await db().query<{ jobs: number; ended: number; endings: number }>(
    `select (select count(*) from fencepost_private.job) as jobs,
              count(distinct job_id) as ended, count(*) as endings
       from fencepost_private.event where kind = 'job.completed'`,
  )
  expect(count?.jobs).toBeGreaterThan(100)
  expect(count).toEqual({ jobs: count?.jobs, ended: count?.jobs, endings: count?.jobs })
  expect(
    await column(db(), 'select sum(running + ready + delayed)::int from fencepost_private.depth()'),
  ).toEqual([0])
})

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))
/** What is expected of sessions that are cut short on purpose. */
class OnPurpose extends Error {}

class Storm {
  /** Errors that nobody expected. */
  readonly surprises: string[] = []
  /** Whether a limit was ever exceeded. */
  isOver = false
  #isBlowing = true
  #isDone = false
  #names = 0

  constructor(private readonly random: Random) {}

  async run(ms: number): Promise<void> {
    const calm = pause(ms).then(() => {
      this.#isBlowing = false
    })
    const makers = [
      ...Array.from({ length: 8 }, () => this.#session((session) => this.#enqueues(session))),
      ...Array.from({ length: 3 }, () =>
        this.#session((session) => this.#leavesClaimsOpen(session)),
      ),
    ]
    const others = [
      ...Array.from({ length: 6 }, () => this.#works()),
      this.#keepsHouse(),
      this.#watchesLimits(),
    ]
    await calm
    await Promise.all(makers)
    const deadline = Date.now() + 45_000
    while ((await this.#alive()) > 0 && Date.now() < deadline) await pause(50)
    this.#isDone = true
    await Promise.all(others)
  }

  #alive(): Promise<number> {
    return one<number>(
      db(),
      `select (select count(*) from fencepost_private.ready) + (select count(*) from fencepost_private.delayed)
            + (select count(*) from fencepost_private.lease)`,
    )
  }

  /** Repeats something in a session of its own while the storm blows. */
  async #session(act: (session: Session) => Promise<void>): Promise<void> {
    await using session = await Session.open(database.url)
    while (this.#isBlowing) {
      try {
        await act(session)
      } catch (error) {
        if (!(error instanceof OnPurpose)) this.surprises.push(String(error))
        await session.rollback()
      }
    }
  }

  #chance(probability: number): boolean {
    return this.random.next() < probability
  }

  async #enqueues(session: Session): Promise<void> {
    const isSnapshot = this.#chance(0.2)
    await session.begin(isSnapshot ? 'repeatable read' : 'read committed')
    if (this.#chance(0.3)) await session.query('select count(*) from fencepost_private.ready')
    for (let n = this.random.between(1, 3); n > 0; n--) {
      await session.query(
        `select fencepost.enqueue_batch($1, array_fill('{}'::jsonb, array[$2::int]), priority => $3)`,
        [this.random.pick(TYPES), this.random.between(1, 6), this.random.pick([2, 5, 8])],
      )
      if (this.#chance(0.3)) await pause(this.#chance(0.1) ? 1200 : this.random.between(0, 200))
      if (this.#chance(0.15)) {
        await session.query('savepoint deep')
        await session.query(`select fencepost.enqueue('a')`)
        await session.query(this.#chance(0.5) ? 'rollback to deep' : 'release deep')
      }
      if (!isSnapshot && this.#chance(0.15)) {
        await session.query(`select count(*) from fencepost.claim('inner', $1, 2)`, [FREE])
      }
    }
    if (this.#chance(0.15)) throw new OnPurpose()
    await session.commit()
  }

  async #leavesClaimsOpen(session: Session): Promise<void> {
    const claims = (max: number) =>
      session.query(`select count(*) from fencepost.claim('inner', $1, $2)`, [FREE, max])
    await session.begin()
    await claims(this.random.between(1, 30))
    if (this.#chance(0.4)) {
      await session.query('savepoint deep')
      await claims(10)
      await session.query('rollback to deep')
    }
    await pause(this.random.between(0, 1500))
    if (this.#chance(0.4)) await claims(5)
    if (this.#chance(0.5)) throw new OnPurpose()
    await session.commit()
    await pause(this.random.between(0, 300))
  }

  async #works(): Promise<void> {
    await using session = await Session.open(database.url)
    let worker: number | undefined
    let done: { job_id: number; token: number }[] = []
    while (!this.#isDone) {
      try {
        worker ??= (
          await session.query<{ id: number }>(
            `select fencepost.register_worker($1, ttl => '1 s') as id`,
            [`w${this.#names++}`],
          )
        )[0]?.id
        const rows = await session.query<{ directive: string; job_id: number; token: number }>(
          `select directive, job_id, token from fencepost.exchange($1, $2, $3, types => $4, max => $5)`,
          [
            worker,
            done.map((job) => job.job_id),
            done.map((job) => job.token),
            TYPES.filter(() => this.#chance(0.7)),
            this.random.between(1, 20),
          ],
        )
        done = []
        if (this.#isBlowing && this.#chance(0.02)) {
          worker = undefined // it dies with all that it holds
          continue
        }
        for (const job of rows.filter((row) => row.directive === 'run')) {
          const luck = this.random.next()
          if (luck < 0.05) {
            await session.query('select fencepost.fail($1, $2)', [job.job_id, job.token])
          } else if (luck > 0.06) {
            done.push(job) // else it forgets it
          }
          if (luck > 0.97) {
            const stale = await session.query(
              'select * from fencepost.complete_many(array[$1::bigint], array[$2::int])',
              [job.job_id, job.token - 1],
            )
            if (stale.length > 0) this.surprises.push(`a stale token was taken: ${job.job_id}`)
          }
        }
        if (rows.length === 0) await pause(5)
      } catch (error) {
        done = []
        worker = undefined
        if ((error as { code?: string }).code !== 'JE010') this.surprises.push(String(error))
      }
    }
  }

  async #keepsHouse(): Promise<void> {
    // the claims inside enqueuing transactions are of a worker that never speaks but through them
    while (!this.#isDone) {
      await maintain(db()).catch((error) => this.surprises.push(String(error)))
      if (!this.#isBlowing) {
        await db().query(
          `update fencepost_private.worker set status = 'stopped' where name = 'inner' and status = 'active'`,
        )
      }
      await pause(60)
    }
  }

  async #watchesLimits(): Promise<void> {
    while (!this.#isDone) {
      const rows = await db().query<{ running: number; max_running: number }>(
        `select count(*) as running, t.max_running from fencepost_private.lease l
         join fencepost_private.lane n on n.lane_id = l.lane_id
         join fencepost_private.job_type t on t.type_id = n.type_id
         where t.max_running is not null group by t.type_id`,
      )
      if (rows.some((row) => row.running > row.max_running)) this.isOver = true
      await pause(3)
    }
  }
}
