import type { Queryable, QueryOptions } from '../database.ts'
import { json } from '../json.ts'
import { call, perform, value } from './call.ts'

/**
 * Cancels a job that waits at once, or asks a running one to stop.
 *
 * @throws FencepostError JE002, JE004
 */
export function cancel(
  db: Queryable,
  jobId: number,
  reason?: string,
  options?: QueryOptions,
): Promise<'cancelled' | 'cancel_requested'> {
  return value(db, call('cancel', { job_id: jobId, reason }), options)
}

/**
 * Returns a dead letter to work, with its attempts reset.
 *
 * @throws FencepostError JE002, JE004
 */
export function replay(db: Queryable, jobId: number, options?: QueryOptions): Promise<void> {
  return perform(db, call('replay', { job_id: jobId }), options)
}

/**
 * Gives a dead letter up for good.
 *
 * @throws FencepostError JE002, JE004
 */
export function discard(
  db: Queryable,
  jobId: number,
  reason?: string,
  options?: QueryOptions,
): Promise<void> {
  return perform(db, call('discard', { job_id: jobId, reason }), options)
}

/**
 * Gives a waiting job another priority, at the end of its new line.
 *
 * @throws FencepostError JE002, JE003, JE004
 */
export function reprioritize(
  db: Queryable,
  jobId: number,
  priority: number,
  options?: QueryOptions,
): Promise<void> {
  return perform(db, call('reprioritize', { job_id: jobId, priority }), options)
}

/**
 * Brings a suspended job back to work, with data for its next attempt.
 *
 * @throws FencepostError JE002, JE004
 */
export function resume(
  db: Queryable,
  jobId: number,
  data?: unknown,
  options?: QueryOptions,
): Promise<void> {
  return perform(
    db,
    call('resume', { job_id: jobId, data: data === undefined ? undefined : json(data) }),
    options,
  )
}
