import type { Queryable, QueryOptions } from '../database.ts'
import { json } from '../json.ts'
import { call, perform, rows, value } from './call.ts'

/** An event as readers get it. */
export interface OutboxEvent {
  /** The place behind it, opaque. It carries the token of the lease under which it was read. */
  readonly position: string
  readonly id: number
  /** What happened, such as `job.completed`. */
  readonly kind: string
  readonly at: Date
  readonly tenant: string
  /** The type of its job. */
  readonly type: string | null
  readonly job_id: number | null
  readonly run_id: number | null
  readonly task_id: number | null
  readonly workflow: string | null
  readonly attempt: number | null
  /** How the attempt ended, when the event ends one. */
  readonly outcome: string | null
  readonly worker: string | null
  /** Since when its job could have been claimed, and when it was. */
  readonly ready_at: Date | null
  readonly started_at: Date | null
  /** Who did it, for what people do. */
  readonly actor: string | null
  /** The result, the error, or what else belongs to it. */
  readonly data: unknown
}

/** Which events a reader gets: each key narrows it. */
export interface EventFilter {
  /** Kinds, exact or with a star at the end, as `run.*`. */
  readonly kinds?: readonly string[]
  /** Types of jobs. */
  readonly types?: readonly string[]
  readonly tenant?: string
}

/** A consumer to be made. */
export interface NewConsumer {
  readonly name: string
  readonly filter?: EventFilter | undefined
  /** `now` (the default), `beginning`, a time, or a position. */
  readonly start?: string | undefined
  /** How old its oldest unread event may be: an SQL interval. Default 7 days; null for no limit. */
  readonly max_lag?: string | null | undefined
}

/**
 * Makes an independent reader of the event log; false when it exists already, with these settings.
 *
 * @throws FencepostError JE003; JE004 when it exists with others
 */
export function createConsumer(
  db: Queryable,
  { name, filter, start, max_lag }: NewConsumer,
  options?: QueryOptions,
): Promise<boolean> {
  const given = filter === undefined ? undefined : json(filter)
  return value(db, call('create_consumer', { name, filter: given, start, max_lag }), options)
}

/** Whose events are read, and how many. */
export interface EventRead {
  readonly consumer: string
  /** At most so many. Default 100, at most 10,000. */
  readonly max?: number
  /** Who reads, for the lease. Default: the session. */
  readonly reader?: string
  /** How long nobody else may read: an SQL interval. Default 30 seconds. */
  readonly lease?: string
}

/**
 * The next events of a consumer, in commit order; they come again until they are acknowledged. None when there is
 * nothing new, or when another reader has the lease.
 *
 * @throws FencepostError JE002, JE003; JE004 when it fell behind its `max_lag`, or after a logical restore
 */
export function readEvents(
  db: Queryable,
  { consumer, max, reader, lease }: EventRead,
  options?: QueryOptions,
): Promise<OutboxEvent[]> {
  return rows(db, call('read_events', { consumer, max, reader, lease }), options)
}

/**
 * Everything up to and with this position is done. False when it had been passed before.
 *
 * @throws FencepostError JE001 when the lease went to another reader; JE002, JE003, JE004
 */
export function ackEvents(
  db: Queryable,
  consumer: string,
  position: string,
  options?: QueryOptions,
): Promise<boolean> {
  return value(db, call('ack_events', { consumer, upto: position }), options)
}

/**
 * Sets an event aside that cannot be delivered, by the position that came with it.
 *
 * @throws FencepostError JE001 when the lease was lost; JE002, JE003
 */
export function parkEvent(
  db: Queryable,
  consumer: string,
  position: string,
  reason: string,
  options?: QueryOptions,
): Promise<void> {
  return perform(db, call('park_event', { consumer, event_position: position, reason }), options)
}
