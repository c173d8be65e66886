import { adopt, type TransactionHandle } from '../database/adopt.ts'
import type { Database } from '../database/database.ts'
import * as engine from '../database/engine.ts'
import { type Duration, interval } from '../definitions/duration.ts'
import { FencepostError } from '../errors.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { Attempt } from './attempt.ts'
import type { JobContext } from './context.ts'

/** What contexts need of who runs them. */
export interface ContextHost {
  readonly db: Database
  /** The name of the worker. */
  readonly name: string
  readonly log: Logger
  /** A write of the attempt was refused with JE001. */
  leaseLost(attempt: Attempt): void
}

/** Ends a handler whose attempt has ended by a statement of its own. */
class Departure extends Error {
  override readonly name = 'Departure'
}

/** The context of one attempt. */
export class AttemptContext implements JobContext {
  readonly #attempt: Attempt
  readonly #host: ContextHost
  #log: Logger | undefined
  #recorded: Promise<Map<string, unknown>> | undefined

  constructor(attempt: Attempt, host: ContextHost) {
    this.#attempt = attempt
    this.#host = host
  }

  get jobId(): number {
    return this.#attempt.job.job_id
  }

  get token(): number {
    return this.#attempt.job.token
  }

  get type(): string {
    return this.#attempt.job.type
  }

  get attempt(): number {
    return this.#attempt.job.attempt
  }

  get maxAttempts(): number {
    return this.#attempt.job.max_attempts
  }

  get priority(): number {
    return this.#attempt.job.priority
  }

  get tenant(): string {
    return this.#attempt.job.tenant
  }

  get idempotencyKey(): string | undefined {
    return this.#attempt.job.idempotency_key ?? undefined
  }

  get headers(): Readonly<Record<string, unknown>> {
    return this.#attempt.job.headers ?? {}
  }

  get createdAt(): Date {
    return this.#attempt.job.created_at
  }

  get runId(): number | null {
    return this.#attempt.job.run_id
  }

  get taskId(): number | null {
    return this.#attempt.job.task_id
  }

  get worker(): string {
    return this.#host.name
  }

  get signal(): AbortSignal {
    return this.#attempt.signal
  }

  get log(): Logger {
    const { jobId: job, type, attempt, worker } = this
    this.#log ??= this.#host.log.child({ job, type, attempt, worker })
    return this.#log
  }

  progress(report: unknown): Promise<void> {
    const { jobId, token } = this
    return this.#fenced(engine.progress(this.#host.db, jobId, token, report))
  }

  async step<Value>(name: string, run: () => Value | Promise<Value>): Promise<Value> {
    const recorded = await this.#steps()
    if (recorded.has(name)) return recorded.get(name) as Value
    const value = await run()
    const { jobId, token } = this
    const kept = await this.#fenced(
      engine.step(this.#host.db, jobId, token, name, value === undefined ? null : value),
    )
    recorded.set(name, kept)
    return kept as Value
  }

  async sleep(name: string, duration: Duration): Promise<void> {
    const delay = interval(duration)
    if ((await this.#steps()).has(name)) return
    // In one transaction: a record without the wait would be taken for a wait that is over.
    await this.#suspend(name, { delay })
  }

  async waitFor<Data>(
    name: string,
    { timeout }: { readonly timeout?: Duration } = {},
  ): Promise<Data | undefined> {
    const delay = timeout === undefined ? undefined : interval(timeout)
    const recorded = await this.#steps()
    if (recorded.has(name)) return recorded.get(name) as Data
    const waited = `${name} (waited)`
    if (recorded.has(waited)) return undefined
    return this.#suspend(waited, { delay, waits_for: name })
  }

  async release(): Promise<never> {
    const { jobId, token } = this
    const released = this.#fenced(engine.release(this.#host.db, jobId, token))
    await this.#attempt.departBy('released', released)
    throw new Departure('the job was given back')
  }

  async complete(tx: TransactionHandle, result?: unknown): Promise<void> {
    const { jobId, token } = this
    const completed = engine.complete(adopt(tx), jobId, token, result)
    await this.#fenced(this.#attempt.completeBy(completed))
  }

  async #suspend(marker: string, until: engine.Suspension): Promise<never> {
    const { jobId, token } = this
    const suspended = this.#fenced(
      this.#host.db.transaction(async (tx) => {
        await engine.step(tx, jobId, token, marker, true)
        await engine.suspend(tx, jobId, token, until)
      }),
    )
    await this.#attempt.departBy('suspended', suspended)
    throw new Departure('the job is suspended')
  }

  /** What earlier attempts recorded. There are none under the first token. */
  #steps(): Promise<Map<string, unknown>> {
    this.#recorded ??=
      this.token === 1
        ? Promise.resolve(new Map())
        : engine
            .steps(this.#host.db, this.jobId)
            .then((rows) => new Map(rows.map(({ name, value }) => [name, value])))
    return this.#recorded
  }

  async #fenced<T>(write: Promise<T>): Promise<T> {
    try {
      return await write
    } catch (error) {
      if (error instanceof FencepostError && error.code === 'JE001') {
        this.#host.leaseLost(this.#attempt)
      }
      throw error
    }
  }
}
