import type { Queryable, QueryOptions } from '../database.ts'
import { call, perform, rows, value } from './call.ts'

// How an idle worker sleeps without missing a job: lock, horizon, claim once more, sleep. Lock and
// unlock belong to one session; each call stands in a transaction of its own.

/** The wake groups (0 to 15) of these types; unknown types have none. */
export function wakeGroups(
  db: Queryable,
  types: readonly string[],
  options?: QueryOptions,
): Promise<number[]> {
  return value(db, call('wake_groups', { types }), options)
}

/** Says that this session sleeps: enqueuers of these groups notify until {@link sleepUnlock}. */
export function sleepLock(
  session: Queryable,
  groups: readonly number[],
  options?: QueryOptions,
): Promise<void> {
  return perform(session, call('sleep_lock', { groups }), options)
}

/** Says that this session is awake again. */
export function sleepUnlock(
  session: Queryable,
  groups: readonly number[],
  options?: QueryOptions,
): Promise<void> {
  return perform(session, call('sleep_unlock', { groups }), options)
}

/** Which transactions may have enqueued without seeing the sleeper. */
export interface Horizon {
  /** The next transaction id. */
  readonly horizon: number
  /** How many transactions below it have not ended. */
  readonly pending: number
}

/** The horizon of a sleeper; to be read after its lock is held. */
export async function sleepHorizon(db: Queryable, options?: QueryOptions): Promise<Horizon> {
  const [row] = await rows<Horizon>(db, call('sleep_horizon', {}), options)
  return row as Horizon
}

/** How many transactions below a horizon have not ended. A job may have appeared each time it falls. */
export function sleepPending(
  db: Queryable,
  horizon: number,
  options?: QueryOptions,
): Promise<number> {
  return value(db, call('sleep_pending', { horizon }), options)
}

/** How long until the next delayed job or retry of these types is due, in ms by the server's clock; null if none is near. */
export async function nextDueIn(
  db: Queryable,
  types: readonly string[],
  options?: QueryOptions,
): Promise<number | null> {
  const { text, params } = call('next_due', { types })
  const [row] = await db.query<{ ms: number | null }>(
    // greatest() passes over nulls
    `select case when d.next_due is not null
                 then greatest(0, extract(epoch from d.next_due - clock_timestamp()) * 1000)::float8 end as ms
     from (${text}) as d`,
    params,
    options,
  )
  return row?.ms ?? null
}
