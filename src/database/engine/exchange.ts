import type { Queryable, QueryOptions } from '../database.ts'
import { type Call, call, rows } from './call.ts'
import type { ClaimedJob, Verdict } from './work.ts'

/** One round of a worker: results in, new work out. Arrays of one group are equally long. */
export interface Exchange {
  readonly worker_id: number
  readonly completed?: {
    readonly job_ids: readonly number[]
    readonly tokens: readonly number[]
    /** JSON texts; null for no result. */
    readonly results?: readonly (string | null)[] | undefined
  }
  readonly failed?: {
    readonly job_ids: readonly number[]
    readonly tokens: readonly number[]
    readonly errors?: readonly (string | null)[] | undefined
    /** JSON texts. */
    readonly details?: readonly (string | null)[] | undefined
    /** SQL intervals; null for the backoff of the type. */
    readonly retry_in?: readonly (string | null)[] | undefined
    readonly permanent?: readonly boolean[] | undefined
  }
  /** What still runs, besides those. */
  readonly running?: {
    readonly job_ids: readonly number[]
    readonly tokens: readonly number[]
  }
  /** What to claim. */
  readonly types?: readonly string[] | undefined
  /** How much to claim, at most 10,000. Default 0: nothing. */
  readonly max?: number | undefined
}

/** A job to start, claimed by this round. */
export interface RunDirective extends ClaimedJob {
  readonly directive: 'run'
  /** What is left of its time by the server's clock, in ms; null without a timeout. */
  readonly time_left: number | null
}

/** What became of a result, or what a running job's handler must hear. */
export interface AttemptDirective {
  readonly directive: 'lost' | 'busy' | 'cancel' | 'timeout' | Verdict
  readonly job_id: number
  readonly token: number
}

/** An operator asks the worker to finish what it has and to take nothing new. */
export interface DrainDirective {
  readonly directive: 'drain'
  readonly job_id: null
}

/** One row of what an exchange returns. */
export type ExchangeDirective = RunDirective | AttemptDirective | DrainDirective

/**
 * A worker's round in one transaction: a heartbeat if one is due, results settled, jobs claimed.
 *
 * @throws FencepostError JE003; JE006 (a result is too large, nothing was done); JE010 (the worker
 *   is lost, nothing was done)
 */
export function exchange(
  db: Queryable,
  { worker_id, completed, failed, running, types, max }: Exchange,
  options?: QueryOptions,
): Promise<ExchangeDirective[]> {
  return rows(
    db,
    withTimeLeft(
      call('exchange', {
        worker_id,
        completed_ids: completed?.job_ids,
        completed_tokens: completed?.tokens,
        completed_results: completed?.results,
        failed_ids: failed?.job_ids,
        failed_tokens: failed?.tokens,
        failed_errors: failed?.errors,
        failed_details: failed?.details,
        failed_retry_in: failed?.retry_in,
        failed_permanent: failed?.permanent,
        running_ids: running?.job_ids,
        running_tokens: running?.tokens,
        types,
        max,
      }),
    ),
    options,
  )
}

/** The server says how long an attempt has left, so that no clock of a worker's decides it. */
function withTimeLeft({ text, params }: Call): Call {
  const timed = `select e.*, case when e.deadline is not null then greatest(0, extract(epoch from e.deadline - clock_timestamp()) * 1000)::float8 end as time_left${text.slice('select *'.length)} as e`
  return { text: timed, params }
}
