import { FencepostError } from '../errors.ts'
import { type Outcome, QueryAbortedError, QueryTimeoutError } from './errors.ts'

/** Makes the error of a deadline that passed, given what is known about the effect. */
export type Expiry = (outcome: Outcome, waitedFor: string) => Error

/**
 * The time one query has: it counts from the call, over the wait for a connection, to the answer.
 * Whoever works for the query at a moment sets `onExpired`, and is told at most once.
 */
export class Deadline implements Disposable {
  /** Called when the time is up or the caller's signal is aborted. */
  onExpired: ((expiry: Expiry) => void) | undefined
  readonly #timer: NodeJS.Timeout | undefined
  readonly #signal: AbortSignal | undefined

  /**
   * @param timeout in ms; Infinity for none
   * @throws QueryAbortedError when the signal is aborted already; FencepostError JE003 when the timeout is none
   */
  constructor(timeout: number, signal?: AbortSignal) {
    if (!(timeout >= 0)) {
      throw new FencepostError('JE003', `timeout is ${timeout}`, {
        hint: 'It is a number of milliseconds, or Infinity.',
      })
    }
    if (signal?.aborted) throw new QueryAbortedError('not_sent', signal.reason)
    this.#signal = signal
    signal?.addEventListener('abort', this.#aborted)
    if (timeout < LONGEST_TIMER) {
      const expiry: Expiry = (outcome, waitedFor) =>
        new QueryTimeoutError(timeout, outcome, waitedFor)
      this.#timer = setTimeout(() => this.onExpired?.(expiry), timeout)
    }
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer)
    this.#signal?.removeEventListener('abort', this.#aborted)
    this.onExpired = undefined
  }

  readonly #aborted = (): void => {
    this.onExpired?.((outcome) => new QueryAbortedError(outcome, this.#signal?.reason))
  }
}

/** How long a query may take when nothing is said, in ms. */
export const DEFAULT_TIMEOUT = 15_000

/** Timers of Node count ms in 31 bits; longer ones would fire at once. */
const LONGEST_TIMER = 2 ** 31
