import { beforeAll, expect, it } from 'vitest'
import { Random } from '../faults/random.ts'
import { maintain, settings, violations } from '../support/engine.ts'
import { ownDatabase } from '../support/server.ts'
import { Session } from '../support/sessions.ts'
import { column, one } from '../support/sql.ts'

// Everything at once: enqueuers that are slow, roll back, hold old snapshots and use savepoints; claims inside of
// enqueuing transactions, left open, rolled back; workers that die, forget, step aside and give up; operators who cancel,
// replay, discard and move; limits; housekeeping throughout. At the end every job that was committed has ended once. FENCEPOST_STORM_SECONDS makes it longer.

const SECONDS = Number(process.env.FENCEPOST_STORM_SECONDS ?? 4)
const TYPES = ['a', 'b', 'c', 'limited-5', 'limited-7']
const FREE = ['a', 'b', 'c']

const database = ownDatabase()
const db = () => database.db
beforeAll(async () => {
  for (const type of TYPES) {
    await settings(db(), type, { max_attempts: 1000, backoff_base: '50 ms' })
    for (const priority of [2, 5, 8]) {
      await db().query('select fencepost_private.ensure_lane($1, $2)', [type, priority])
    }
  }
  await settings(db(), 'limited-5', { max_running: 5 })
  await settings(db(), 'limited-7', { max_running: 7 })
})

it(`loses nothing and ends nothing twice in a storm of ${SECONDS} s`, {
  timeout: SECONDS * 1000 + 180_000,
}, async () => {
  const random = new Random()
  console.log(`seed ${random.seed} (FENCEPOST_SEED)`)
  const storm = new Storm(random)
  await storm.run(SECONDS * 1000)

  expect(new Set(storm.surprises)).toEqual(new Set())
  expect(storm.isOver).toBe(false)
  expect(await violations(db())).toEqual([])
  const [count] = await db().query<{ jobs: number; ended: number; endings: number }>(
    `select (select count(*) from fencepost_private.job) as jobs,
              count(distinct job_id) as ended, count(*) as endings
       from fencepost_private.event where kind in ('job.completed', 'job.cancelled', 'job.discarded')`,
  )
  expect(count?.jobs).toBeGreaterThan(100)
  expect(count).toEqual({ jobs: count?.jobs, ended: count?.jobs, endings: count?.jobs })
  expect(
    await column(
      db(),
      'select sum(running + ready + delayed + waiting + dead_letter)::int from fencepost_private.depth()',
    ),
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
      ...Array.from({ length: 2 }, () => this.#operates()),
      this.#keepsHouse(),
      this.#watchesLimits(),
    ]
    await calm
    await Promise.all(makers)
    const deadline = Date.now() + 120_000
    while ((await this.#alive()) > 0 && Date.now() < deadline) await pause(50)
    this.#isDone = true
    await Promise.all(others)
  }

  #alive(): Promise<number> {
    return one<number>(
      db(),
      `select (select count(*) from fencepost_private.ready) + (select count(*) from fencepost_private.delayed)
            + (select count(*) from fencepost_private.lease) + (select count(*) from fencepost_private.suspended)
            + (select count(*) from fencepost_private.dead_letter)`,
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
            await session.query('select fencepost.fail($1, $2, permanent => $3)', [
              job.job_id,
              job.token,
              luck < 0.02,
            ])
          } else if (luck < 0.08 && this.#isBlowing) {
            await session.query(`select fencepost.suspend($1, $2, delay => '100 ms')`, [
              job.job_id,
              job.token,
            ])
          } else if (luck > 0.09) {
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
        const { code } = error as { code?: string }
        // an operator may have asked to cancel it, or a sweep may have taken it
        if (!['JE001', 'JE004', 'JE010'].includes(code ?? '')) this.surprises.push(String(error))
      }
    }
  }

  /** Cancels, moves, replays and discards at random; in the end it discards what is dead and wakes what waits. */
  async #operates(): Promise<void> {
    await using session = await Session.open(database.url)
    while (!this.#isDone) {
      const last = await one<number>(db(), 'select last_value from fencepost_private.job_id_seq')
      const id = this.random.between(Math.max(1, last - 200), last)
      const calls = [
        `fencepost.cancel(${id})`,
        `fencepost.reprioritize(${id}, ${this.random.pick([2, 5, 8])})`,
        `fencepost.resume(${id})`,
        `fencepost.replay_matching('{}', false, 3)`,
        `count(*) from fencepost_private.cancel_jobs(array[${id}, ${id - 1}, ${id - 2}], null, fencepost_private.now())`,
      ]
      const closing = [
        `fencepost.discard_matching('{}', false)`,
        `fencepost_private.resume_jobs(array(select id from fencepost_private.suspended), null, fencepost_private.now())`,
      ]
      try {
        await session.begin()
        await session.query(`select ${this.random.pick(this.#isBlowing ? calls : closing)}`)
        if (this.#chance(0.2)) await pause(this.random.between(0, 100))
        await (this.#chance(0.2) ? session.rollback() : session.commit())
      } catch (error) {
        await session.rollback()
        const { code } = error as { code?: string }
        if (!['JE002', 'JE004'].includes(code ?? '')) this.surprises.push(String(error))
      }
      await pause(this.random.between(0, 20))
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
