import type { Queryable, QueryOptions } from '../database.ts'
import { json } from '../json.ts'
import { call, rows, value } from './call.ts'
import type { EventFilter, OutboxEvent } from './outbox.ts'

/** A row of `fencepost.consumers`: where a reader of the event log stands. */
export interface ConsumerRow {
  readonly name: string
  /** Everything up to here is acknowledged. */
  readonly position: string
  /** Events after that, of all kinds, counted to 100,000. */
  readonly lag_events: number
  /** Age of the oldest of them; 0 when there is none. */
  readonly lag_seconds: number
  /** Who holds the lease, and until when; null when nobody does. */
  readonly reader: string | null
  readonly leased_until: Date | null
  /** Events that were set aside. */
  readonly parked: number
  readonly kinds: readonly string[] | null
  readonly types: readonly string[] | null
  readonly tenant: string | null
  /** How old its oldest unread event may be: an SQL interval; null is no limit. */
  readonly max_lag: string | null
  readonly created_at: Date
  /** When it last read or acknowledged. */
  readonly moved_at: Date
  /** Since when it is beyond `max_lag`. */
  readonly expired_at: Date | null
}

/** All consumers, by name. */
export function consumers(db: Queryable, options?: QueryOptions): Promise<ConsumerRow[]> {
  return db.query('select * from fencepost.consumers as c order by c.name', [], options)
}

/** One consumer; undefined when there is none of this name. */
export async function getConsumer(
  db: Queryable,
  name: string,
  options?: QueryOptions,
): Promise<ConsumerRow | undefined> {
  const [row] = await db.query<ConsumerRow>(
    'select * from fencepost.consumers as c where c.name = $1',
    [name],
    options,
  )
  return row
}

/**
 * Moves a consumer: to `beginning` (of what is kept), `now`, a time or a position; whoever reads it loses the lease.
 * Returns the new position.
 *
 * @throws FencepostError JE001 when a transaction holds it; JE002, JE003
 */
export function seekConsumer(
  db: Queryable,
  consumer: string,
  to: string,
  options?: QueryOptions,
): Promise<string> {
  return value(db, call('seek_consumer', { consumer, to_position: to }), options)
}

/**
 * Removes a consumer, its position and its parked events; false when there was none.
 *
 * @throws FencepostError JE001 when a transaction holds it
 */
export function dropConsumer(
  db: Queryable,
  consumer: string,
  options?: QueryOptions,
): Promise<boolean> {
  return value(db, call('drop_consumer', { consumer }), options)
}

/** What a look at the log found, and where the next one goes on. */
export interface EventPage {
  readonly events: OutboxEvent[]
  /** The place that the look reached; undefined when it found nothing at all, and stayed where it began. */
  readonly reached: string | undefined
}

/** Where a look at the log begins, and what it is for. */
export interface EventLook {
  /** A position, `beginning`, `now` or a time. Default `beginning`. */
  readonly after?: string | undefined
  /** At most so many. Default 100, at most 10,000. */
  readonly max?: number | undefined
  readonly filter?: EventFilter | undefined
}

/**
 * The next events of the log, in commit order, without a consumer.
 *
 * @throws FencepostError JE003; JE004 after a logical restore
 */
export async function listEvents(
  db: Queryable,
  { after, max, filter }: EventLook,
  options?: QueryOptions,
): Promise<EventPage> {
  const given = filter === undefined ? undefined : json(filter)
  const look = call('list_events', { after, max, filter: given })
  const found = await rows<OutboxEvent & { readonly id: number | null }>(db, look, options)
  // the last row may tell only how far the look went
  return { events: found.filter(({ id }) => id !== null), reached: found.at(-1)?.position }
}

/**
 * A place in the log, to begin {@link listEvents} from: `now` (the default), `beginning`, or a time.
 *
 * @throws FencepostError JE003; JE004 after a logical restore
 */
export function eventPosition(db: Queryable, at?: string, options?: QueryOptions): Promise<string> {
  return value(db, call('event_position', { at }), options)
}

/** A row of `fencepost.parked_events`: an event that a consumer set aside. */
export interface ParkedEventRow {
  readonly consumer: string
  readonly event_id: number
  readonly kind: string
  readonly type: string | null
  readonly job_id: number | null
  readonly run_id: number | null
  /** Why. */
  readonly reason: string
  /** How often it was set aside. */
  readonly times: number
  readonly parked_at: Date
  /** True when it is to be delivered again. */
  readonly again: boolean
  /** The event as it is read, but for its position; times in it are texts. */
  readonly event: Readonly<Record<string, unknown>>
}

/** Which part of the parked events of a consumer is given. */
export interface ParkedEventPage {
  /** Go on after this event. */
  readonly after?: number | undefined
  readonly limit?: number | undefined
}

/** The events that a consumer set aside, oldest first. */
export function parkedEvents(
  db: Queryable,
  consumer: string,
  { after = 0, limit = 50 }: ParkedEventPage = {},
  options?: QueryOptions,
): Promise<ParkedEventRow[]> {
  return db.query(
    `select * from fencepost.parked_events as p
     where p.consumer = $1 and p.event_id > $2 order by p.event_id limit $3`,
    [consumer, after, limit],
    options,
  )
}

/**
 * Lets parked events be read again, before anything else: all, or these. How many.
 *
 * @throws FencepostError JE002
 */
export function replayParked(
  db: Queryable,
  consumer: string,
  event_ids?: readonly number[],
  options?: QueryOptions,
): Promise<number> {
  return value(db, call('replay_parked', { consumer, event_ids }), options)
}

/**
 * Removes parked events for good: all, or these. How many.
 *
 * @throws FencepostError JE002
 */
export function discardParked(
  db: Queryable,
  consumer: string,
  event_ids?: readonly number[],
  options?: QueryOptions,
): Promise<number> {
  return value(db, call('discard_parked', { consumer, event_ids }), options)
}
