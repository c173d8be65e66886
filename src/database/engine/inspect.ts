import type { Queryable, QueryOptions } from '../database.ts'
import type { EventRow, LeaseRow, WorkerRow } from './views.ts'

// What people look at, in parts that are bounded.

/** Where a job's history goes on: microseconds since 1970, the event's id and its token, or 0. */
export type HistoryKey = readonly [at: number, id: number, token: number]

/** An event and its place in the history. */
export type HistoryRow = EventRow & { readonly place: HistoryKey }

/** The history of a job, newest first, from `after` on. */
export async function history(
  db: Queryable,
  jobId: number,
  { limit, after }: { readonly limit: number; readonly after?: HistoryKey | undefined },
  options?: QueryOptions,
): Promise<HistoryRow[]> {
  const [at, id, token] = after ?? []
  const rows = await db.query<EventRow & Record<'place_at' | 'place_id' | 'place_token', number>>(
    `select * from (
       select e.*, (extract(epoch from e.created_at) * 1000000)::bigint as place_at,
              coalesce(e.id, 0) as place_id, coalesce(e.token, 0) as place_token
       from fencepost.job_events as e where e.job_id = $1
     ) as h
     where $2::bigint is null or (h.place_at, h.place_id, h.place_token) < ($2, $3::bigint, $4::int)
     order by h.place_at desc, h.place_id desc, h.place_token desc limit $5`,
    [jobId, at, id, token, limit],
    options,
  )
  return rows.map(({ place_at, place_id, place_token, ...event }) => ({
    ...event,
    place: [place_at, place_id, place_token],
  }))
}

/** The lease of a running job; undefined when it does not run. */
export async function leaseOf(
  db: Queryable,
  jobId: number,
  options?: QueryOptions,
): Promise<LeaseRow | undefined> {
  const [lease] = await db.query<LeaseRow>(
    'select l.* from fencepost.leases as l where l.job_id = $1',
    [jobId],
    options,
  )
  return lease
}

/** A part of the list of workers. */
export interface WorkerFilter {
  readonly status?: string | undefined
  readonly limit: number
  readonly before?: number | undefined
}

/** Worker processes, newest first; of one status or of all. */
export function workerPage(
  db: Queryable,
  { status, limit, before }: WorkerFilter,
  options?: QueryOptions,
): Promise<WorkerRow[]> {
  return db.query(
    `select w.* from fencepost.workers as w
     where ($1::text is null or w.status = $1) and ($2::bigint is null or w.id < $2)
     order by w.id desc limit $3`,
    [status, before, limit],
    options,
  )
}

/** A worker by its number; undefined when there is none. */
export async function getWorker(
  db: Queryable,
  workerId: number,
  options?: QueryOptions,
): Promise<WorkerRow | undefined> {
  const [worker] = await db.query<WorkerRow>(
    'select w.* from fencepost.workers as w where w.id = $1',
    [workerId],
    options,
  )
  return worker
}

/** What a worker holds, by job: the first `limit`. */
export function leasesOf(
  db: Queryable,
  workerId: number,
  limit: number,
  options?: QueryOptions,
): Promise<LeaseRow[]> {
  return db.query(
    'select l.* from fencepost.leases as l where l.worker_id = $1 order by l.job_id limit $2',
    [workerId, limit],
    options,
  )
}

/** Resolves when the database answers and has the schema. */
export async function ping(db: Queryable, options?: QueryOptions): Promise<void> {
  await db.query('select from fencepost.types limit 1', [], options)
}
