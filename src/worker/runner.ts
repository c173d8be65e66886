import type { Database } from '../database/database.ts'
import type { RunDirective } from '../database/engine.ts'
import type { JobDefinition } from '../definitions/define-job.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { AbortCause } from './abort.ts'
import { Attempt, type AttemptHost } from './attempt.ts'
import type { LoopWatch } from './loop-watch.ts'
import type { Held } from './pulse-loop.ts'
import { Waiters } from './waiters.ts'

/** What a runner is made of, and whom it tells. */
export interface RunnerOptions {
  readonly db: Database
  /** The name of the worker. */
  readonly name: string
  readonly log: Logger
  readonly definitions: ReadonlyMap<string, JobDefinition>
  readonly concurrency: number
  readonly abortGrace: number
  readonly watch: LoopWatch
  /** A handler has ended, and its attempt must be settled, or was settled by a statement of its own. */
  readonly ended: (attempt: Attempt) => void
  /** A slot was taken from a handler that does not stop. */
  readonly freed: () => void
  /** An attempt is known to be lost. */
  readonly lost: (attempt: Attempt) => void
}

/** Handlers are started for at most so long before others get their turn, in ms. */
const STARTING = 10

/** Runs the handlers of claimed jobs, so many at a time, and knows every attempt that is not settled yet. */
export class Runner implements AttemptHost {
  readonly db: Database
  readonly name: string
  readonly log: Logger
  readonly abortGrace: number
  readonly #options: RunnerOptions
  readonly #held = new Map<number, Attempt>()
  #queue: Attempt[] = []
  #next = 0
  #running = 0
  /** True while {@link run} is at work, or about to go on: handlers that end at once do not call it anew. */
  #starting = false
  #closed = false
  readonly #idle = new Waiters()

  constructor(options: RunnerOptions) {
    this.db = options.db
    this.name = options.name
    this.log = options.log
    this.abortGrace = options.abortGrace
    this.#options = options
  }

  /** Handlers that run. */
  get running(): number {
    return this.#running
  }

  /** Jobs that were claimed and have not started. */
  get queued(): number {
    return this.#queue.length - this.#next
  }

  /** All attempts that are not settled yet. */
  get held(): Iterable<Attempt> {
    return this.#held.values()
  }

  /** The same, as a heartbeat names them. */
  get heldKeys(): Held {
    const ids: number[] = []
    const tokens: number[] = []
    for (const { job } of this.#held.values()) {
      ids.push(job.job_id)
      tokens.push(job.token)
    }
    return { ids, tokens }
  }

  /** The attempt that holds a job, if one of ours does. */
  find(jobId: number): Attempt | undefined {
    return this.#held.get(jobId)
  }

  /** Takes claimed jobs in; {@link run} starts them. */
  add(job: RunDirective, incarnation: number): void {
    const before = this.#held.get(job.job_id)
    // The engine gave the job out anew: whatever we held of it is lost.
    if (before !== undefined) this.giveUp(before)
    const definition = this.#options.definitions.get(job.type) as JobDefinition
    const attempt = new Attempt(job, definition, incarnation, this)
    this.#held.set(job.job_id, attempt)
    this.#queue.push(attempt)
  }

  /** Starts as many as there are slots for. */
  run(): void {
    if (this.#starting || this.#closed) return
    this.#starting = true
    const until = performance.now() + STARTING
    while (this.#running < this.#options.concurrency && this.queued > 0) {
      if (performance.now() > until) {
        setImmediate(() => {
          this.#starting = false
          this.run()
        })
        return
      }
      this.#start(this.#shift())
    }
    this.#starting = false
  }

  /** The attempt is settled: nothing more will be said of it. */
  settle(attempt: Attempt): void {
    if (this.#held.get(attempt.job.job_id) === attempt) this.#held.delete(attempt.job.job_id)
    this.#announceIdle()
  }

  /** Tells a handler to stop. One that has not started is ended at once. */
  abort(attempt: Attempt, why: AbortCause): void {
    if (this.#withdraw(attempt)) attempt.giveUp(why)
    else attempt.abort(why)
  }

  /**
   * The lease is not ours any more. Of one that ends the attempt by itself, or may have ended it already,
   * that is what is to be expected: how it ended is asked afterwards.
   */
  lose(attempt: Attempt): void {
    if (!attempt.completing && !attempt.doubtful) this.giveUp(attempt)
  }

  /** The lease is lost for certain: the handler is told, and nothing of it will be sent. */
  giveUp(attempt: Attempt): void {
    if (attempt.lost || attempt.ending?.kind === 'departed') return
    attempt.lost = true
    this.settle(attempt)
    if (!this.#withdraw(attempt)) attempt.abort('lease_lost')
    this.#options.lost(attempt)
  }

  /** Takes out all jobs that have not started. */
  takeQueue(): Attempt[] {
    const taken = this.#queue.slice(this.#next)
    this.#queue = []
    this.#next = 0
    for (const attempt of taken) this.settle(attempt)
    return taken
  }

  /** Starts no handler from now on. */
  close(): void {
    this.#closed = true
  }

  /** Resolves when no handler runs and none waits to. */
  whenIdle(): Promise<void> {
    const idle = this.#idle.wait()
    this.#announceIdle()
    return idle
  }

  leaseLost(attempt: Attempt): void {
    this.lose(attempt)
  }

  ended(attempt: Attempt): void {
    if (!attempt.detached) this.#free(attempt)
    this.#options.ended(attempt)
    this.run()
  }

  ignoresAbort(attempt: Attempt): void {
    const { job_id: job, type, attempt: number } = attempt.job
    this.log.warn(
      { job, type, attempt: number, worker: this.name, why: attempt.aborted },
      'a handler goes on although its signal fired; its slot is given to others',
    )
    attempt.detached = true
    this.#free(attempt)
    this.run()
    this.#options.freed()
  }

  #start(attempt: Attempt): void {
    this.#running++
    this.#options.watch.enter(attempt.job.type)
    attempt.start()
    this.#options.watch.entered()
  }

  #free(attempt: Attempt): void {
    // One that never started had no slot.
    if (attempt.startedAt === 0) return
    this.#running--
    this.#options.watch.leave(attempt.job.type)
    this.#announceIdle()
  }

  #shift(): Attempt {
    const attempt = this.#queue[this.#next++] as Attempt
    if (this.#next === this.#queue.length) {
      this.#queue = []
      this.#next = 0
    }
    return attempt
  }

  /** Takes an attempt out of the queue; false when it is not in there. */
  #withdraw(attempt: Attempt): boolean {
    if (attempt.startedAt !== 0) return false
    const at = this.#queue.indexOf(attempt, this.#next)
    if (at >= 0) this.#queue.splice(at, 1)
    return at >= 0
  }

  #announceIdle(): void {
    if (this.#running === 0 && this.queued === 0) this.#idle.release()
  }
}
