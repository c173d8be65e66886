import type { Queryable, QueryOptions } from '../database.ts'
import { call, perform } from './call.ts'

/** What an operator sets of a type. What is left out stays as it is. */
export interface TypeChange {
  /** How many jobs may run at once; 0 is no limit. */
  readonly max_running?: number | undefined
  readonly max_attempts?: number | undefined
  /** The limit of one attempt: an SQL interval; `0` is none. */
  readonly timeout?: string | undefined
  readonly backoff_base?: string | undefined
  readonly backoff_factor?: number | undefined
  readonly backoff_cap?: string | undefined
  readonly backoff_jitter?: number | undefined
  /** How many jobs may wait before enqueues are refused; 0 is no limit. */
  readonly max_pending?: number | undefined
  readonly max_payload_bytes?: number | undefined
  /** An SQL/JSON path predicate that payloads must satisfy; empty for none. */
  readonly payload_check?: string | undefined
  /** False refuses enqueues. */
  readonly accept?: boolean | undefined
  readonly publish_enqueued?: boolean | undefined
  readonly publish_started?: boolean | undefined
  readonly dead_letter_alert?: number | undefined
  readonly keep_finished?: string | undefined
  /** Settings that are given back to what code declares. */
  readonly reset?: readonly string[] | undefined
}

/**
 * Sets settings of a type over what code declares; makes the type when there is none.
 *
 * @throws FencepostError JE003, naming the setting
 */
export function configureType(
  db: Queryable,
  type: string,
  change: TypeChange,
  options?: QueryOptions,
): Promise<void> {
  return perform(db, call('configure_type', { ...change, type }), options)
}

/**
 * Stops claims of a type; running jobs and enqueues go on.
 *
 * @throws FencepostError JE003
 */
export function pauseType(
  db: Queryable,
  type: string,
  reason?: string,
  options?: QueryOptions,
): Promise<void> {
  return perform(db, call('pause_type', { type, reason }), options)
}

/**
 * Lets claims of a type go on.
 *
 * @throws FencepostError JE003
 */
export function resumeType(
  db: Queryable,
  type: string,
  reason?: string,
  options?: QueryOptions,
): Promise<void> {
  return perform(db, call('resume_type', { type, reason }), options)
}

/**
 * Asks a worker to finish what it runs and to take nothing new.
 *
 * @throws FencepostError JE002, JE004
 */
export function drainWorker(
  db: Queryable,
  workerId: number,
  options?: QueryOptions,
): Promise<void> {
  return perform(db, call('drain_worker', { worker_id: workerId }), options)
}
