import type { Queryable, QueryOptions } from '../database.ts'
import { json } from '../json.ts'
import { call, rows, value } from './call.ts'
import type { JobRow } from './views.ts'

/** What narrows a list of jobs; `{}` is all. The keys are those of `fencepost.list_jobs`. */
export type JobFilter = Readonly<Record<string, unknown>>

/** A row of a list of jobs. */
export type ListedJob = JobRow & {
  /** True: the look was cut short here, and no job stands in this row but its id. */
  readonly cut: boolean
}

/**
 * Jobs that match, newest first, with ids below `after`; at most 10,000 are looked at.
 *
 * @throws FencepostError JE003
 */
export function listJobs(
  db: Queryable,
  filter: JobFilter,
  { after, max }: { readonly after?: number | undefined; readonly max?: number | undefined } = {},
  options?: QueryOptions,
): Promise<ListedJob[]> {
  return rows(db, call('list_jobs', { filter: json(filter), after, max }), options)
}

/** A reason why a job is not running, or where it is. */
export interface ReasonRow {
  readonly reason: string
  readonly detail: string
  readonly since: Date | null
  /** What would change it. */
  readonly release: string
}

/**
 * Why a job is not running now, or where it is.
 *
 * @throws FencepostError JE002
 */
export function explainJob(
  db: Queryable,
  jobId: number,
  options?: QueryOptions,
): Promise<ReasonRow[]> {
  return rows(db, call('explain_job', { job_id: jobId }), options)
}

/** Whether something is done, or only counted. */
export interface Extent {
  /** Default true: only count. */
  readonly dry_run?: boolean | undefined
  /** How many at most. Default 10,000. */
  readonly max?: number | undefined
}

/**
 * Returns dead letters that match to work, or counts them; how many.
 *
 * @throws FencepostError JE003
 */
export function replayMatching(
  db: Queryable,
  filter: JobFilter,
  extent: Extent = {},
  options?: QueryOptions,
): Promise<number> {
  return value(db, call('replay_matching', { ...extent, filter: json(filter) }), options)
}

/**
 * Gives dead letters that match up, or counts them; how many.
 *
 * @throws FencepostError JE003
 */
export function discardMatching(
  db: Queryable,
  filter: JobFilter,
  extent: Extent & { readonly reason?: string | undefined } = {},
  options?: QueryOptions,
): Promise<number> {
  return value(db, call('discard_matching', { ...extent, filter: json(filter) }), options)
}
