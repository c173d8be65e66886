import type { TransactionHandle } from '../database/adopt.ts'
import type { Duration } from '../definitions/duration.ts'
import type { Logger } from '../telemetry/logger.ts'

/** What a handler knows of its attempt, and can do with it. */
export interface JobContext {
  readonly jobId: number
  /** Fences every write of this attempt: whoever holds an older one is refused with JE001. */
  readonly token: number
  readonly type: string
  /** The number of this attempt, from 1. */
  readonly attempt: number
  readonly maxAttempts: number
  readonly priority: number
  readonly tenant: string
  readonly idempotencyKey: string | undefined
  /** Metadata that the producer gave, such as `traceparent`. */
  readonly headers: Readonly<Record<string, unknown>>
  readonly createdAt: Date
  /** The workflow run that the job belongs to; null outside of workflows. */
  readonly runId: number | null
  /** The task that the job does: one of the definition, an item of a map, an undoing. Null outside of workflows. */
  readonly taskId: number | null
  /** The name of the worker. */
  readonly worker: string

  /**
   * Fires when the lease is lost, the job is cancelled, the time is up, or the worker stops and will
   * not wait longer. Its reason is an {@link AttemptAbortedError}. Hand it to whatever takes time.
   */
  readonly signal: AbortSignal

  /** A logger whose lines carry job, type and attempt. */
  readonly log: Logger

  /**
   * Tells how far the job is: any JSON. Only the latest is kept.
   *
   * @throws FencepostError JE001 when the lease was lost
   */
  progress(report: unknown): Promise<void>

  /**
   * Runs a part of the work once in the job's life: what it returned is recorded under its name, and
   * every later attempt gets that back instead of running it again. A part that ran but whose record
   * was not written (a crash in between) runs again.
   *
   * @returns what is recorded, as JSON keeps it: undefined becomes null, dates texts
   * @throws FencepostError JE001 when the lease was lost
   */
  step<Value>(name: string, run: () => Value | Promise<Value>): Promise<Value>

  /**
   * Waits without holding a slot or a lease: the attempt ends here, and the job comes back after the
   * time as a new attempt of the same number, in which this call returns at once. Put what must not
   * be done twice before it into a {@link step}.
   *
   * @param name unique in the job
   * @throws what ends the handler; do not catch it
   */
  sleep(name: string, duration: Duration): Promise<void>

  /**
   * Waits for `resume(jobId, data)` in the same way, and then returns the data: undefined when there
   * is none, or the time given passed first. A `resume` before the job waits is refused with JE004 and not kept.
   *
   * @param name unique in the job
   * @throws what ends the handler; do not catch it
   */
  waitFor<Data = unknown>(
    name: string,
    options?: { readonly timeout?: Duration },
  ): Promise<Data | undefined>

  /**
   * Gives the job back, as if this attempt had not been: it is ready at once, for anyone, and the
   * attempt does not count.
   *
   * @throws what ends the handler; do not catch it
   */
  release(): Promise<never>

  /**
   * Completes the job inside the handler's own transaction: what it wrote there, the result and the
   * event are one commit. When the lease was lost it throws, so that the transaction rolls back.
   * Make it the last statement, and return after the commit. If the transaction rolls back, the job
   * ends as the handler does: completed with what it returns, or failed with what it throws.
   *
   * @param tx a transaction of postgres.js, node-postgres or anything with `query(text, params)`
   * @throws FencepostError JE001 when the lease was lost, JE006 when the result is too large
   */
  complete(tx: TransactionHandle, result?: unknown): Promise<void>
}
