/**
 * Why the signal of an attempt fired.
 * - `lease_lost`: the job is not this attempt's any more; nothing that it writes counts.
 * - `cancelled`: someone asked to cancel the job. Unless the attempt completes, the job ends as cancelled.
 * - `timed_out`: the attempt's time is up; the engine is about to take the job back.
 * - `stopping`: the worker stops, and its deadline for that has passed. The job goes to others.
 */
export type AbortCause = 'lease_lost' | 'cancelled' | 'timed_out' | 'stopping'

/** The reason of a handler's signal that fired. */
export class AttemptAbortedError extends Error {
  override readonly name = 'AbortError'
  readonly why: AbortCause

  constructor(why: AbortCause, message: string) {
    super(message)
    this.why = why
  }
}

/** The reason that a handler hears. */
export function abortReason(why: AbortCause, limit?: number): AttemptAbortedError {
  switch (why) {
    case 'lease_lost':
      return new AttemptAbortedError(
        why,
        'the lease was lost: another attempt owns the job, or it has ended',
      )
    case 'cancelled':
      return new AttemptAbortedError(why, 'the job is being cancelled')
    case 'timed_out':
      return new AttemptAbortedError(
        why,
        `timed out${limit === undefined ? '' : ` after ${Math.round(limit)} ms`}`,
      )
    case 'stopping':
      return new AttemptAbortedError(why, 'the worker stopped before the handler had ended')
  }
}
