import { setTimeout as sleep } from 'node:timers/promises'
import type { Database } from '../../src/database/database.ts'
import { createConsumer, type Told } from '../support/outbox.ts'

const NAME = 'follower'
/** The kinds that end a job. */
const ENDS = ['job.completed', 'job.dead_lettered', 'job.cancelled', 'job.discarded']

/** A consumer of the event log that goes on through everything, and keeps each event that ended a job. */
export class Follower implements AsyncDisposable {
  readonly #db: Database
  /** By job, the ids of the events that ended it: a repeated delivery adds none. */
  readonly #ends = new Map<number, Set<number>>()
  #deliveries = 0
  #over = false
  #caughtUp = false
  #following: Promise<void> | undefined

  constructor(db: Database) {
    this.#db = db
  }

  async start(): Promise<void> {
    await createConsumer(this.#db, NAME, { kinds: ENDS }, 'beginning')
    this.#following = this.#follow()
  }

  /** Reads all that is left, and gives a line for each of these jobs that was not ended by exactly one event. */
  async judge(jobs: readonly number[]): Promise<string[]> {
    this.#over = true
    await this.#following
    return jobs.flatMap((job) => {
      const count = this.#ends.get(job)?.size ?? 0
      return count === 1 ? [] : [`a consumer saw job ${job} end ${count} times`]
    })
  }

  /** How many events came, repeated ones counted. */
  get deliveries(): number {
    return this.#deliveries
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#over = true
    this.#caughtUp = true
    await this.#following
  }

  async #follow(): Promise<void> {
    while (!(this.#over && this.#caughtUp)) {
      const over = this.#over // before the look: what comes later is not waited for
      try {
        const events = await this.#db.query<Told>(
          `select * from fencepost.read_events($1, 2000, 'follower', '5 seconds')`,
          [NAME],
        )
        for (const { id, job_id } of events) this.#note(job_id ?? 0, id)
        const last = events.at(-1)
        if (last === undefined) {
          this.#caughtUp = over && (await this.#lag()) === 0
          await sleep(100)
        } else {
          await this.#db.query('select fencepost.ack_events($1, $2)', [NAME, last.position])
        }
      } catch {
        await sleep(100) // the server is down, or came back without our lease: read again
      }
    }
  }

  #note(job: number, event: number): void {
    this.#deliveries += 1
    const known = this.#ends.get(job)
    if (known === undefined) this.#ends.set(job, new Set([event]))
    else known.add(event)
  }

  async #lag(): Promise<number> {
    const [row] = await this.#db.query<{ lag_events: number }>(
      'select lag_events from fencepost.consumers where name = $1',
      [NAME],
    )
    return row?.lag_events ?? 0
  }
}
