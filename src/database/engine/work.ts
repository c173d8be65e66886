import type { Queryable, QueryOptions } from '../database.ts'
import { json } from '../json.ts'
import { call, perform, rows, value } from './call.ts'

/** The version of the worker protocol that this package speaks. */
export const PROTOCOL = 1

/** A worker process that presents itself. */
export interface NewWorker {
  readonly name: string
  readonly hostname?: string | undefined
  /** Tells processes of one name on one host apart. */
  readonly slot?: number | undefined
  readonly types?: readonly string[] | undefined
  /** How long it may be silent before its jobs are taken back: an SQL interval. */
  readonly ttl?: string | undefined
  readonly protocol?: number | undefined
  /** What it tells of itself. */
  readonly info?: Readonly<Record<string, unknown>> | undefined
  readonly tenant?: string | undefined
}

/**
 * Registers a worker process: its number, new for each incarnation. An older one of the same name,
 * host and slot is lost.
 *
 * @throws FencepostError JE003, JE011
 */
export function registerWorker(
  db: Queryable,
  worker: NewWorker,
  options?: QueryOptions,
): Promise<number> {
  const { info, ...rest } = worker
  return value(
    db,
    call('register_worker', { ...rest, info: info === undefined ? undefined : json(info) }),
    options,
  )
}

/** An attempt that was claimed: the job, and the token under which it is leased. */
export interface ClaimedJob {
  readonly job_id: number
  /** Fences every write of this attempt. */
  readonly token: number
  readonly type: string
  /** The number of this attempt, from 1. */
  readonly attempt: number
  readonly max_attempts: number
  readonly payload: unknown
  readonly headers: Readonly<Record<string, unknown>> | null
  readonly priority: number
  readonly tenant: string
  readonly idempotency_key: string | null
  readonly created_at: Date
  /** When the attempt times out; null without a timeout. */
  readonly deadline: Date | null
  /** The workflow run that the job belongs to; null outside of workflows. */
  readonly run_id: number | null
  /** Its task there: one of the definition, an item of a map, an undoing. */
  readonly task_id: number | null
}

/** What to claim, and for whom. */
export interface Claim {
  /** The worker's name; an unknown one is registered. */
  readonly worker: string
  readonly types: readonly string[]
  /** Default 1. */
  readonly max?: number | undefined
  readonly ttl?: string | undefined
}

/**
 * Leases up to `max` jobs of these types. Never waits; no row means no work.
 *
 * @throws FencepostError JE003
 */
export function claim(db: Queryable, what: Claim, options?: QueryOptions): Promise<ClaimedJob[]> {
  return rows(db, call('claim', what), options)
}

/** Something that needs a worker's attention. */
export interface Directive {
  /** Null for `drain`, which concerns the worker itself. */
  readonly job_id: number | null
  readonly directive: 'lost' | 'cancel' | 'timeout' | 'drain'
}

/** A sign of life. */
export interface Heartbeat {
  readonly worker: string
  /** Chooses among workers of one name; wins over the name. */
  readonly worker_id?: number | undefined
  /** The jobs that it runs, and their tokens in the same order. */
  readonly job_ids?: readonly number[] | undefined
  readonly tokens?: readonly number[] | undefined
}

/**
 * Keeps a worker and its leases alive, and says what became of the jobs that it named.
 *
 * @throws FencepostError JE003, JE010
 */
export function heartbeat(
  db: Queryable,
  beat: Heartbeat,
  options?: QueryOptions,
): Promise<Directive[]> {
  return rows(db, call('heartbeat', beat), options)
}

/**
 * Completes the attempt that holds this token, in the caller's transaction.
 *
 * @throws FencepostError JE001 when it was lost, JE002, JE006
 */
export function complete(
  db: Queryable,
  jobId: number,
  token: number,
  result?: unknown,
  options?: QueryOptions,
): Promise<void> {
  return perform(
    db,
    call('complete', {
      job_id: jobId,
      token,
      result: result === undefined ? undefined : json(result),
    }),
    options,
  )
}

/** One attempt, by what fences it. */
export interface AttemptKey {
  readonly job_id: number
  readonly token: number
}

/** Attempts that went well. */
export interface Completions {
  readonly job_ids: readonly number[]
  readonly tokens: readonly number[]
  /** In the same order; undefined for no result. */
  readonly results?: readonly unknown[] | undefined
}

/**
 * Completes many attempts; the accepted ones come back.
 *
 * @throws FencepostError JE003, JE006
 */
export function completeMany(
  db: Queryable,
  ended: Completions,
  options?: QueryOptions,
): Promise<AttemptKey[]> {
  const results = ended.results?.map((each) => (each === undefined ? null : json(each)))
  return rows(db, call('complete_many', { ...ended, results }), options)
}

/** What becomes of a job whose attempt failed. */
export type Verdict = 'retry' | 'dead_letter' | 'cancelled'

/** What is told of a failed attempt. */
export interface Failure {
  /** What went wrong, for people. */
  readonly error?: string | undefined
  /** The wait before the next attempt instead of the backoff: an SQL interval. */
  readonly retry_in?: string | undefined
  /** True when trying again is useless. */
  readonly permanent?: boolean | undefined
  /** Anything structured that belongs to it. */
  readonly details?: unknown
}

/**
 * Fails the attempt that holds this token.
 *
 * @throws FencepostError JE001, JE002, JE003
 */
export function fail(
  db: Queryable,
  jobId: number,
  token: number,
  failure: Failure = {},
  options?: QueryOptions,
): Promise<Verdict> {
  const details = failure.details === undefined ? undefined : json(failure.details)
  return value(db, call('fail', { ...failure, details, job_id: jobId, token }), options)
}

/** Attempts that went wrong. */
export interface Failures {
  readonly job_ids: readonly number[]
  readonly tokens: readonly number[]
  readonly errors?: readonly (string | null)[] | undefined
  readonly retry_in?: readonly (string | null)[] | undefined
  readonly permanent?: readonly boolean[] | undefined
  /** Undefined for none. */
  readonly details?: readonly unknown[] | undefined
}

/**
 * Fails many attempts; stale pairs are passed over.
 *
 * @throws FencepostError JE003
 */
export function failMany(
  db: Queryable,
  ended: Failures,
  options?: QueryOptions,
): Promise<(AttemptKey & { readonly verdict: Verdict })[]> {
  const details = ended.details?.map((each) => (each === undefined ? null : json(each)))
  return rows(db, call('fail_many', { ...ended, details }), options)
}

/**
 * Gives one attempt back unstarted, without counting it.
 *
 * @throws FencepostError JE001, JE002
 */
export function release(
  db: Queryable,
  jobId: number,
  token: number,
  options?: QueryOptions,
): Promise<void> {
  return perform(db, call('release', { job_id: jobId, token }), options)
}

/**
 * Gives attempts back unstarted, without counting them; the accepted ones come back.
 *
 * @throws FencepostError JE003
 */
export function releaseMany(
  db: Queryable,
  jobIds: readonly number[],
  tokens: readonly number[],
  options?: QueryOptions,
): Promise<AttemptKey[]> {
  return rows(db, call('release_many', { job_ids: jobIds, tokens }), options)
}

/**
 * Records the latest progress of a running job.
 *
 * @throws FencepostError JE001, JE002, JE003
 */
export function progress(
  db: Queryable,
  jobId: number,
  token: number,
  report: unknown,
  options?: QueryOptions,
): Promise<void> {
  return perform(db, call('progress', { job_id: jobId, token, value: json(report) }), options)
}

/**
 * Records a checkpoint of a running job once, and returns what is recorded.
 *
 * @throws FencepostError JE001, JE002, JE003
 */
export function step<Value>(
  db: Queryable,
  jobId: number,
  token: number,
  name: string,
  result?: Value,
  options?: QueryOptions,
): Promise<Value | null> {
  return value(
    db,
    call('step', {
      job_id: jobId,
      token,
      name,
      value: result === undefined ? undefined : json(result),
    }),
    options,
  )
}

/** What a suspended job waits for: a time, `resume()`, or whichever comes first. */
export interface Suspension {
  readonly wake_at?: Date | string | undefined
  /** An SQL interval. */
  readonly delay?: string | undefined
  /** Name of what it waits for: the step that `resume()` records its data as. */
  readonly waits_for?: string | undefined
}

/**
 * Takes a running job off its worker; the attempt does not count.
 *
 * @throws FencepostError JE001, JE002, JE003, JE004
 */
export function suspend(
  db: Queryable,
  jobId: number,
  token: number,
  until: Suspension = {},
  options?: QueryOptions,
): Promise<void> {
  return perform(db, call('suspend', { ...until, job_id: jobId, token }), options)
}

/**
 * Says that a worker process ends; jobs that it still holds are taken back.
 *
 * @throws FencepostError JE002
 */
export function stopWorker(db: Queryable, workerId: number, options?: QueryOptions): Promise<void> {
  return perform(db, call('stop_worker', { worker_id: workerId }), options)
}
