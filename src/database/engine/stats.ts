import type { Queryable, QueryOptions } from '../database.ts'
import { call, rows } from './call.ts'

/** A row of `fencepost.stats()`: how a type stands now. */
export interface StatsRow {
  readonly type: string
  readonly ready: number
  readonly delayed: number
  readonly parked: number
  /** Ready, delayed and parked. */
  readonly pending: number
  readonly running: number
  readonly waiting: number
  readonly dead_letter: number
  /** Since when the oldest ready job waits; null when none does. */
  readonly oldest_ready_seconds: number | null
  readonly enqueued_total: number
  readonly completed_total: number
  readonly failed_attempts_total: number
  readonly retried_total: number
  readonly dead_lettered_total: number
  readonly cancelled_total: number
  readonly discarded_total: number
  readonly replayed_total: number
  readonly lease_expired_total: number
  /** Over the last one to two minutes. */
  readonly enqueued_per_second: number
  readonly completed_per_second: number
  readonly failed_per_second: number
  readonly workers: number
  readonly draining_workers: number
  readonly paused: boolean
  readonly accept: boolean
  readonly max_running: number | null
  readonly max_pending: number | null
  readonly dead_letter_alert: number
}

/**
 * Depths, ages, totals and rates of each type, from counters.
 *
 * @throws FencepostError JE002 for a type that does not exist
 */
export function stats(db: Queryable, type?: string, options?: QueryOptions): Promise<StatsRow[]> {
  return rows(db, call('stats', { type }), options)
}

/** A row of `fencepost.outcome_totals()`: what happened since the beginning. */
export interface OutcomeRow {
  readonly type: string
  readonly kind: string
  /** Null for what ends no attempt. */
  readonly outcome: string | null
  readonly events: number
  /** Upper bounds of the buckets, in seconds. */
  readonly bounds: readonly number[]
  readonly wait_seconds: number
  /** Attempts in each bucket, and last those beyond the bounds; not cumulative. */
  readonly wait_counts: readonly number[]
  readonly run_seconds: number
  readonly run_counts: readonly number[]
}

/** Events by type, kind and outcome, with histograms of wait and run times. */
export function outcomeTotals(
  db: Queryable,
  type?: string,
  options?: QueryOptions,
): Promise<OutcomeRow[]> {
  return rows(db, call('outcome_totals', { type }), options)
}

/** How many workers there are, and how many jobs they can run at once. */
export interface WorkerCount {
  readonly status: string
  readonly workers: number
  readonly slots: number
}

/** Workers by status, from their own small table. */
export function workerCounts(db: Queryable, options?: QueryOptions): Promise<WorkerCount[]> {
  return db.query(
    `select w.status, count(*) as workers,
            coalesce(sum((w.info ->> 'slots')::int) filter (where jsonb_typeof(w.info -> 'slots') = 'number'), 0) as slots
     from fencepost.workers as w group by w.status`,
    [],
    options,
  )
}

/**
 * How long the oldest snapshot of this server has been held, in seconds: dead rows stay as long. Sessions
 * of other roles are seen by members of pg_read_all_stats.
 */
export async function snapshotAge(db: Queryable, options?: QueryOptions): Promise<number> {
  const [row] = await db.query<{ age: number }>(
    `select coalesce(max(extract(epoch from clock_timestamp() - a.xact_start)), 0)::float8 as age
     from pg_stat_activity as a
     where a.backend_xmin is not null and a.pid <> pg_backend_pid() and a.backend_type = 'client backend'`,
    [],
    options,
  )
  return row?.age ?? 0
}
