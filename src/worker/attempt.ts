import type { RunDirective } from '../database/engine.ts'
import { DatabaseError } from '../database/errors.ts'
import { encodeJson } from '../database/json.ts'
import type { JobDefinition } from '../definitions/define-job.ts'
import { FencepostError } from '../errors.ts'
import { type AbortCause, type AttemptAbortedError, abortReason } from './abort.ts'
import { AttemptContext, type ContextHost } from './attempt-context.ts'
import { describeFailure, type Failure, plainFailure } from './failure.ts'

/** How a handler ended. */
export type Ending =
  | {
      readonly kind: 'completed'
      /** JSON text; null for none. */
      readonly result: string | null
    }
  | { readonly kind: 'failed'; readonly failure: Failure }
  /** The attempt ended by a statement of its own: there is nothing to send. */
  | { readonly kind: 'departed'; readonly outcome: 'suspended' | 'released' }

/** Who runs attempts. */
export interface AttemptHost extends ContextHost {
  /** How long a handler may go on after its signal fired before its slot is given to others, in ms. */
  readonly abortGrace: number
  /** The handler has ended. */
  ended(attempt: Attempt): void
  /** The handler was told to stop and goes on: it is left alone. */
  ignoresAbort(attempt: Attempt): void
}

/** A job that was claimed under a token, and what its handler makes of it. */
export class Attempt {
  readonly job: RunDirective
  readonly definition: JobDefinition
  /** The worker's number when it was claimed: the lease lives and dies with it. */
  readonly incarnation: number
  /** When the handler began and ended, by `performance.now()`; 0 before. */
  startedAt = 0
  endedAt = 0
  ending: Ending | undefined
  /** True when the lease is known to belong to nobody, or to others. */
  lost = false
  /** True when its slot was given to others while the handler goes on. */
  detached = false
  /** True when its result travels alone, so that a refusal concerns no other. */
  alone = false
  /** True when it may have ended already: its result was sent and no answer came, or {@link completing}. */
  doubtful = false
  /** True when a transaction of the handler completes the job: only the database knows whether it committed. */
  completing = false
  readonly #host: AttemptHost
  #control: AbortController | undefined
  #aborted: AttemptAbortedError | undefined
  #limit: NodeJS.Timeout | undefined
  #grace: NodeJS.Timeout | undefined

  constructor(
    job: RunDirective,
    definition: JobDefinition,
    incarnation: number,
    host: AttemptHost,
  ) {
    this.job = job
    this.definition = definition
    this.incarnation = incarnation
    this.#host = host
  }

  /** The handler's signal, made when somebody asks for it. */
  get signal(): AbortSignal {
    if (this.#control === undefined) {
      this.#control = new AbortController()
      if (this.#aborted !== undefined) this.#control.abort(this.#aborted)
    }
    return this.#control.signal
  }

  /** Why it was told to stop, if it was. */
  get aborted(): AbortCause | undefined {
    return this.#aborted?.why
  }

  /** Parses the payload and runs the handler. Never throws: the host hears when it has ended. */
  start(): void {
    this.startedAt = performance.now()
    const { time_left: left, payload } = this.job
    if (left !== null) {
      const limit = Math.min(left, LONGEST_TIMER)
      this.#limit = setTimeout(() => this.abort('timed_out', left), limit).unref()
    }
    try {
      const parsed = this.definition.parse(payload)
      if (isPromise(parsed)) parsed.then(this.#run, this.#rejected)
      else this.#run(parsed)
    } catch (error) {
      this.#rejected(error)
    }
  }

  /** Tells the handler to stop; the first reason counts. */
  abort(why: AbortCause, limit?: number): void {
    if (this.#aborted !== undefined || this.ending !== undefined) return
    this.#aborted = abortReason(why, limit)
    if (this.startedAt === 0) return
    this.#grace = setTimeout(() => this.#host.ignoresAbort(this), this.#host.abortGrace).unref()
    this.#control?.abort(this.#aborted)
  }

  /** Ends it for a handler that did not start or does not stop. */
  giveUp(why: AbortCause): void {
    this.abort(why)
    this.#end({ kind: 'failed', failure: describeFailure(this.#aborted ?? abortReason(why)) })
  }

  /** Ends it by a statement of its own; when that fails it goes on. */
  async departBy<T>(outcome: 'suspended' | 'released', statement: Promise<T>): Promise<T> {
    this.ending = { kind: 'departed', outcome }
    try {
      return await statement
    } catch (error) {
      this.ending = undefined
      throw error
    }
  }

  /** Completes it by a statement in a transaction of the handler. One that was refused has done nothing. */
  async completeBy(statement: Promise<void>): Promise<void> {
    const before = this.completing
    this.completing = true
    try {
      await statement
    } catch (error) {
      if (error instanceof FencepostError || error instanceof DatabaseError) {
        this.completing = before
      }
      throw error
    }
  }

  /** What was to be sent is refused for what it is: send that instead. */
  replaceBy(failure: Failure): void {
    this.ending = { kind: 'failed', failure }
  }

  #run = (payload: unknown): void => {
    try {
      const returned = this.definition.run(payload, new AttemptContext(this, this.#host))
      if (isPromise(returned)) returned.then(this.#returned, this.#threw)
      else this.#returned(returned)
    } catch (error) {
      this.#threw(error)
    }
  }

  /** The payload does not fit: no other attempt would mend it. What else a schema throws may pass. */
  #rejected = (error: unknown): void => {
    const failure = describeFailure(error)
    const permanent = error instanceof FencepostError && error.code === 'JE006'
    this.#end({ kind: 'failed', failure: { ...failure, permanent } })
  }

  #returned = (result: unknown): void => {
    this.#end(completion(result))
  }

  #threw = (error: unknown): void => {
    // Nobody else will ever look at a promise that was thrown.
    if (error instanceof Promise) error.catch(() => {})
    this.#end({ kind: 'failed', failure: describeFailure(error) })
  }

  #end(ending: Ending): void {
    if (this.endedAt !== 0) return
    clearTimeout(this.#limit)
    clearTimeout(this.#grace)
    this.endedAt = performance.now()
    if (this.ending?.kind !== 'departed') this.ending = ending
    this.doubtful = this.completing
    this.#host.ended(this)
  }
}

const NO_RESULT: Ending = { kind: 'completed', result: null }

/** A result as it can be stored; one that cannot is a failure that no other attempt would mend. */
function completion(result: unknown): Ending {
  if (result === undefined) return NO_RESULT
  try {
    return { kind: 'completed', result: encodeJson(result, 'the result') }
  } catch (error) {
    return { kind: 'failed', failure: plainFailure((error as Error).message, true) }
  }
}

/** The longest that a timer can be set to, in ms. */
const LONGEST_TIMER = 2 ** 31 - 1

function isPromise<T>(value: T | PromiseLike<T>): value is PromiseLike<T> {
  return (
    value !== null &&
    (typeof value === 'object' || typeof value === 'function') &&
    typeof (value as PromiseLike<T>).then === 'function'
  )
}
