import type { Queryable, QueryOptions } from '../database.ts'
import { json } from '../json.ts'
import { call, rows, value } from './call.ts'

/** A job to be enqueued. What is left out takes the default of the engine or of the job's type. */
export interface NewJob {
  /** What kind of work, such as `email.send`. */
  readonly type: string
  /** Any JSON. Default `{}`. */
  readonly payload?: unknown
  /** 0 to 9, higher first. Default 5. */
  readonly priority?: number | undefined
  /** Not before this time. */
  readonly run_at?: Date | string | undefined
  /** Not before this long from now: an SQL interval such as `10 minutes`. */
  readonly delay?: string | undefined
  /** The same key for the same type and tenant gives the same job, while that job is kept. */
  readonly idempotency_key?: string | undefined
  /** How often it is tried before it is dead-lettered. */
  readonly max_attempts?: number | undefined
  /** The limit of one attempt: an SQL interval. */
  readonly timeout?: string | undefined
  /** Metadata for machines, such as `traceparent`. */
  readonly headers?: Readonly<Record<string, unknown>> | undefined
  /** Whose job it is. */
  readonly tenant?: string | undefined
}

/** What became of one job of a list. */
export interface Enqueued {
  /** The job: the new one, or the one that has the idempotency key. */
  readonly job_id: number
  /** False when the idempotency key was already taken. */
  readonly created: boolean
}

/**
 * Enqueues one job and returns its id: the new one, or the one that has the idempotency key.
 *
 * @throws FencepostError JE003, JE005, JE006, JE007
 */
export function enqueue(db: Queryable, job: NewJob, options?: QueryOptions): Promise<number> {
  const { payload, headers, ...rest } = job
  return value(
    db,
    call('enqueue', {
      ...rest,
      payload: payload === undefined ? undefined : json(payload),
      headers: headers === undefined ? undefined : json(headers),
    }),
    options,
  )
}

/**
 * Enqueues jobs of any types, all or nothing. A row for each, in their order.
 *
 * @throws FencepostError JE003, JE005, JE006, JE007; the message names the place in the list, from 1
 */
export function enqueueMany(
  db: Queryable,
  jobs: readonly NewJob[],
  options?: QueryOptions,
): Promise<Enqueued[]> {
  return rows(db, call('enqueue_many', { jobs: json(jobs) }), options)
}

/** What the jobs of a batch have in common. */
export type BatchOptions = Pick<NewJob, 'priority' | 'delay' | 'tenant'>

/**
 * Enqueues a job of one type for each payload, all or nothing: the fastest way. Returns their ids
 * in that order.
 *
 * @throws FencepostError JE003, JE006, JE007
 */
export function enqueueBatch(
  db: Queryable,
  type: string,
  payloads: readonly unknown[],
  batch: BatchOptions = {},
  options?: QueryOptions,
): Promise<number[]> {
  return value(
    db,
    call('enqueue_batch', { ...batch, type, payloads: payloads.map((each) => json(each)) }),
    options,
  )
}
