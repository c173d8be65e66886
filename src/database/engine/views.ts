import type { Queryable, QueryOptions } from '../database.ts'

/** Where a job stands. */
export type JobStatus =
  | 'pending'
  | 'running'
  | 'waiting'
  | 'completed'
  | 'dead_letter'
  | 'cancelled'
  | 'discarded'

/** A row of `fencepost.jobs`. */
export interface JobRow {
  readonly id: number
  readonly type: string
  readonly status: JobStatus
  /** Attempts that count so far. */
  readonly attempts: number
  readonly max_attempts: number
  readonly priority: number
  readonly payload: unknown
  readonly result: unknown
  readonly last_error: string | null
  readonly available_at: Date | null
  readonly leased_until: Date | null
  readonly worker: string | null
  readonly idempotency_key: string | null
  readonly tenant: string
  readonly created_at: Date
  readonly updated_at: Date
  readonly started_at: Date | null
  readonly finished_at: Date | null
  readonly waits_for: string | null
  readonly headers: Readonly<Record<string, unknown>> | null
  /** Its own limit for one attempt, as an SQL interval. */
  readonly timeout: string | null
  /** The fencing token of its last claim; 0 before the first. */
  readonly token: number
  /** What the handler last told. */
  readonly progress: unknown
  readonly run_id: number | null
  readonly task_id: number | null
}

/** How an attempt ended. */
export type AttemptOutcome =
  | 'completed'
  | 'failed'
  | 'timed_out'
  | 'lease_expired'
  | 'released'
  | 'cancelled'
  | 'suspended'

/** A row of `fencepost.attempts`. */
export interface AttemptRow {
  readonly job_id: number
  readonly attempt: number
  readonly token: number
  readonly worker: string | null
  /** Null while it runs. */
  readonly outcome: AttemptOutcome | null
  readonly error: string | null
  readonly started_at: Date
  readonly finished_at: Date | null
  /** Since when it could have been claimed. */
  readonly ready_at: Date | null
  readonly details: unknown
  readonly result: unknown
  readonly worker_id: number | null
}

/** A row of `fencepost.job_events`. */
export interface EventRow {
  /** Null for `job.enqueued` and `job.started` of types that do not publish them. */
  readonly id: number | null
  readonly job_id: number
  readonly kind: string
  readonly attempt: number | null
  readonly worker: string | null
  readonly data: unknown
  readonly created_at: Date
  readonly token: number | null
  readonly outcome: AttemptOutcome | null
  readonly actor: string | null
  readonly tenant: string
}

/** A row of `fencepost.dead_letter`. */
export interface DeadLetterRow {
  readonly job_id: number
  readonly type: string
  readonly final_error: string
  readonly attempts: number
  readonly failed_at: Date
  readonly priority: number
  readonly tenant: string
  readonly details: unknown
  readonly payload: unknown
  readonly idempotency_key: string | null
  readonly created_at: Date
  readonly token: number
  readonly run_id: number | null
  readonly task_id: number | null
}

/** A row of `fencepost.workers`. */
export interface WorkerRow {
  readonly id: number
  readonly name: string
  readonly hostname: string
  readonly status: 'active' | 'draining' | 'lost' | 'stopped'
  readonly types: readonly string[]
  readonly last_heartbeat: Date
  readonly active_jobs: number
  readonly slot: number
  /** An SQL interval. */
  readonly ttl: string
  readonly started_at: Date
  readonly suspect_at: Date | null
  readonly ended_at: Date | null
  readonly info: Readonly<Record<string, unknown>> | null
  readonly tenant: string
}

/** A row of `fencepost.leases`. */
export interface LeaseRow {
  readonly job_id: number
  readonly worker_id: number
  readonly worker: string
  readonly attempt: number
  readonly token: number
  readonly started_at: Date
  /** The earliest time at which the engine may take the attempt back. */
  readonly leased_until: Date | null
  readonly deadline: Date | null
  readonly type: string
  readonly priority: number
  readonly tenant: string
  readonly ready_at: Date
  readonly cancel_requested_at: Date | null
  readonly cancel_reason: string | null
}

/** A row of `fencepost.types`. */
export interface TypeRow {
  readonly type: string
  readonly paused: boolean
  readonly max_attempts: number
  /** An SQL interval, as all durations here; null for no limit. */
  readonly timeout: string | null
  readonly max_running: number | null
  readonly max_pending: number | null
  readonly accept: boolean
  readonly backoff_base: string
  readonly backoff_factor: number
  readonly backoff_cap: string
  readonly backoff_jitter: number
  readonly max_payload_bytes: number
  readonly payload_check: string | null
  readonly publish_enqueued: boolean
  readonly publish_started: boolean
  readonly dead_letter_alert: number
  readonly keep_finished: string
  /** The settings that an operator has set: declarations from code leave them alone. */
  readonly overridden: readonly string[]
  readonly created_at: Date
  readonly updated_at: Date
}

/** A row of `fencepost.steps`. */
export interface StepRow {
  readonly job_id: number
  readonly name: string
  readonly value: unknown
  readonly token: number
  readonly at: Date
}

/** A job by its id; undefined when there is none. */
export async function getJob(
  db: Queryable,
  jobId: number,
  options?: QueryOptions,
): Promise<JobRow | undefined> {
  const [job] = await db.query<JobRow>(
    'select j.* from fencepost.jobs as j where j.id = $1',
    [jobId],
    options,
  )
  return job
}

/** Where a job stands, at the cost of no more than that; undefined when there is none. */
export async function jobStatus(
  db: Queryable,
  jobId: number,
  options?: QueryOptions,
): Promise<JobStatus | undefined> {
  const [job] = await db.query<Pick<JobRow, 'status'>>(
    'select j.status from fencepost.jobs as j where j.id = $1',
    [jobId],
    options,
  )
  return job?.status
}

/** The attempts of a job, newest first. */
export function attempts(
  db: Queryable,
  jobId: number,
  options?: QueryOptions,
): Promise<AttemptRow[]> {
  return db.query(
    'select a.* from fencepost.attempts as a where a.job_id = $1 order by a.token desc',
    [jobId],
    options,
  )
}

/** The events of a job, newest first. */
export function events(
  db: Queryable,
  jobId: number,
  { limit = 50, offset = 0 }: { readonly limit?: number; readonly offset?: number } = {},
  options?: QueryOptions,
): Promise<EventRow[]> {
  return db.query(
    `select e.* from fencepost.job_events as e
     where e.job_id = $1
     order by e.created_at desc, e.token desc nulls last, e.id desc nulls last
     limit $2 offset $3`,
    [jobId, limit, offset],
    options,
  )
}

/** What the attempts of a job have recorded. */
export function steps(db: Queryable, jobId: number, options?: QueryOptions): Promise<StepRow[]> {
  return db.query(
    'select s.* from fencepost.steps as s where s.job_id = $1 order by s.at',
    [jobId],
    options,
  )
}

/** A part of a list: the next `limit` after a place. */
export interface Page {
  /** Default 50. */
  readonly limit?: number | undefined
  /** The id of the last row of the part before; left out for the first part. */
  readonly before?: number | undefined
}

/** Dead letters, newest job first; of one type or of all. */
export function deadLetters(
  db: Queryable,
  { type, limit = 50, before }: Page & { readonly type?: string | undefined } = {},
  options?: QueryOptions,
): Promise<DeadLetterRow[]> {
  return db.query(
    `select d.* from fencepost.dead_letter as d
     where ($1::text is null or d.type = $1) and ($2::bigint is null or d.job_id < $2)
     order by d.job_id desc limit $3`,
    [type, before, limit],
    options,
  )
}

/** A dead letter by its job's id; undefined when there is none. */
export async function getDeadLetter(
  db: Queryable,
  jobId: number,
  options?: QueryOptions,
): Promise<DeadLetterRow | undefined> {
  const [letter] = await db.query<DeadLetterRow>(
    'select d.* from fencepost.dead_letter as d where d.job_id = $1',
    [jobId],
    options,
  )
  return letter
}

/** Worker processes, newest first. */
export function workers(db: Queryable, options?: QueryOptions): Promise<WorkerRow[]> {
  return db.query('select w.* from fencepost.workers as w order by w.id desc', [], options)
}

/** The leases of a worker, by job. */
export function leases(
  db: Queryable,
  workerId: number,
  options?: QueryOptions,
): Promise<LeaseRow[]> {
  return db.query(
    'select l.* from fencepost.leases as l where l.worker_id = $1 order by l.job_id',
    [workerId],
    options,
  )
}

/** The types and their settings, by name. */
export function types(db: Queryable, options?: QueryOptions): Promise<TypeRow[]> {
  return db.query('select t.* from fencepost.types as t order by t.type', [], options)
}

/** A type and its settings; undefined when nobody has enqueued or declared it yet. */
export async function getType(
  db: Queryable,
  type: string,
  options?: QueryOptions,
): Promise<TypeRow | undefined> {
  const [row] = await db.query<TypeRow>(
    'select t.* from fencepost.types as t where t.type = $1',
    [type],
    options,
  )
  return row
}

/** What became of one attempt: its outcome, or null while it runs; undefined when nothing is known. */
export async function attemptOutcome(
  db: Queryable,
  jobId: number,
  token: number,
  options?: QueryOptions,
): Promise<AttemptOutcome | null | undefined> {
  const [row] = await db.query<Pick<AttemptRow, 'outcome'>>(
    'select a.outcome from fencepost.attempts as a where a.job_id = $1 and a.token = $2',
    [jobId, token],
    options,
  )
  return row?.outcome
}
