import type { Queryable, QueryOptions } from '../database.ts'
import { json } from '../json.ts'
import { call, perform, rows, value } from './call.ts'

/** Where a run stands, derived from its tasks. */
export type RunStatus =
  | 'running'
  | 'waiting'
  | 'paused'
  | 'completed'
  | 'failed'
  | 'cancelled'
  | 'compensating'
  | 'compensated'

/** A run as lists show it. */
export interface RunSummary {
  readonly id: number
  readonly workflow: string
  /** The version that it is pinned to. */
  readonly version: number
  readonly status: RunStatus
  readonly input: unknown
  readonly created_at: Date
  readonly finished_at: Date | null
  readonly pending_tasks: number
  readonly queued_tasks: number
  readonly waiting_tasks: number
  readonly ended_tasks: number
  readonly failed_tasks: number
  readonly total_tasks: number
  readonly tags: readonly string[]
  readonly priority: number
  readonly tenant: string | null
  readonly idempotency_key: string | null
  /** Why it was paused or cancelled. */
  readonly reason: string | null
  readonly paused_at: Date | null
  readonly cancelled_at: Date | null
  /** The run and the task that it is a part of. */
  readonly parent_run_id: number | null
  readonly parent_task_id: number | null
  readonly root_run_id: number
  /** The run that it takes outputs over from. */
  readonly restarted_from: number | null
}

/** A row of `fencepost.runs`. */
export type RunRow = RunSummary & {
  /** Outputs of the tasks that no other waits for, by name; null until the run has completed. */
  readonly output: Readonly<Record<string, unknown>> | null
}

/** What a run is started with. */
export interface NewRun {
  readonly workflow: string
  /** Default `{}`. */
  readonly input?: unknown
  /** Default: the latest. The run stays on it. */
  readonly version?: number | undefined
  /** The same key for the same workflow and tenant gives the same run. */
  readonly idempotency_key?: string | undefined
  readonly tags?: readonly string[] | undefined
  /** Of its jobs, unless a task says otherwise. */
  readonly priority?: number | undefined
  readonly tenant?: string | undefined
}

/** What many runs of one workflow have in common. */
export type NewRuns = Omit<NewRun, 'input' | 'idempotency_key'>

/**
 * Starts a run and returns its id: the new one, or that of the run which has the idempotency key.
 *
 * @throws FencepostError JE002 (workflow or version), JE003 (input, priority, tags), JE005 (key used with another input),
 *   JE006 (input of more than 1 MiB)
 */
export function startRun(db: Queryable, run: NewRun, options?: QueryOptions): Promise<number> {
  const { input, ...rest } = run
  return value(
    db,
    call('start_run', { ...rest, input: input === undefined ? undefined : json(input) }),
    options,
  )
}

/**
 * Starts a run for each input, all or nothing: the fast way. Returns their ids in that order.
 *
 * @throws FencepostError JE002, JE003, JE006; the message names the place in the list, from 1
 */
export function startRuns(
  db: Queryable,
  runs: NewRuns,
  inputs: readonly unknown[],
  options?: QueryOptions,
): Promise<number[]> {
  return value(
    db,
    call('start_runs', { ...runs, inputs: inputs.map((each) => json(each)) }),
    options,
  )
}

/**
 * Holds a run and its child runs; what runs now finishes.
 *
 * @throws FencepostError JE002; JE004 when it has ended
 */
export function pauseRun(
  db: Queryable,
  runId: number,
  reason?: string,
  options?: QueryOptions,
): Promise<void> {
  return perform(db, call('pause_run', { run_id: runId, reason }), options)
}

/**
 * Lets a held run go on.
 *
 * @throws FencepostError JE002; JE004 when it is not paused
 */
export function resumeRun(db: Queryable, runId: number, options?: QueryOptions): Promise<void> {
  return perform(db, call('resume_run', { run_id: runId }), options)
}

/**
 * Cancels a run and its child runs; running handlers are told.
 *
 * @throws FencepostError JE002; JE004 when it has completed or was compensated
 */
export function cancelRun(
  db: Queryable,
  runId: number,
  reason?: string,
  options?: QueryOptions,
): Promise<void> {
  return perform(db, call('cancel_run', { run_id: runId, reason }), options)
}

/**
 * Tries every failed task of a run again. Returns how many tasks that are.
 *
 * @throws FencepostError JE002; JE004 when nothing in it can be replayed
 */
export function retryRun(db: Queryable, runId: number, options?: QueryOptions): Promise<number> {
  return value(db, call('retry_run', { run_id: runId }), options)
}

/**
 * Begins a new run that takes over the outputs of an old one: of all that completed, but for
 * `fromTask` and what comes after it. Returns the new run's id.
 *
 * @throws FencepostError JE002, JE003 (no such task)
 */
export function restartRun(
  db: Queryable,
  runId: number,
  fromTask?: string,
  options?: QueryOptions,
): Promise<number> {
  return value(db, call('restart_run', { run_id: runId, from_task: fromTask }), options)
}

/** A task that differs between the version of a run and another one. */
export interface MigrationRow {
  readonly task: string
  readonly change: 'added' | 'dropped' | 'changed'
}

/**
 * Moves a run to another version of its workflow, or only tells what would change.
 *
 * @throws FencepostError JE002; JE004 when it has ended, or a task that has begun does not fit
 */
export function migrateRun(
  db: Queryable,
  runId: number,
  toVersion: number,
  dryRun?: boolean,
  options?: QueryOptions,
): Promise<MigrationRow[]> {
  return rows(
    db,
    call('migrate_run', { run_id: runId, to_version: toVersion, dry_run: dryRun }),
    options,
  )
}

/**
 * Sends a signal to a run: the task that waits for it takes it, or the first that will. Returns its id.
 *
 * @throws FencepostError JE002, JE003 (name), JE006 (payload of more than 1 MiB); JE004 when it has ended
 */
export function signalRun(
  db: Queryable,
  runId: number,
  name: string,
  payload?: unknown,
  options?: QueryOptions,
): Promise<number> {
  return value(
    db,
    call('signal_run', {
      run_id: runId,
      name,
      payload: payload === undefined ? undefined : json(payload),
    }),
    options,
  )
}

/** What narrows a list of runs; `{}` is all. The keys are those of `fencepost.list_runs`. */
export type RunFilter = Readonly<Record<string, unknown>>

/** A row of a bounded list: where the look was cut short, no more than the id stands in it. */
export type Listed<Row> = Row & { readonly cut: boolean }

/** A part of a list: how many rows, and the id of the last row of the part before. */
export interface Part {
  /** At most 1,000. Default 50. */
  readonly max?: number | undefined
  readonly after?: number | undefined
}

/**
 * Runs that match, newest first; at most 10,000 are looked at.
 *
 * @throws FencepostError JE003
 */
export function listRuns(
  db: Queryable,
  filter: RunFilter = {},
  { after, max }: Part = {},
  options?: QueryOptions,
): Promise<Listed<RunSummary>[]> {
  return rows(db, call('list_runs', { filter: json(filter), after, max }), options)
}

/** A run by its id; undefined when there is none. */
export async function getRun(
  db: Queryable,
  runId: number,
  options?: QueryOptions,
): Promise<RunRow | undefined> {
  const [run] = await db.query<RunRow>(
    'select r.* from fencepost.runs as r where r.id = $1',
    [runId],
    options,
  )
  return run
}

/** A row of `fencepost.signals`. */
export interface SignalRow {
  readonly id: number
  readonly run_id: number
  readonly name: string
  readonly payload: unknown
  readonly received_at: Date
  readonly sent_by: string
  /** The task that took it; null while none has. */
  readonly task_id: number | null
}

/** The signals that a run received, newest first. */
export function signals(
  db: Queryable,
  runId: number,
  { max = 50, after }: Part = {},
  options?: QueryOptions,
): Promise<SignalRow[]> {
  return db.query(
    `select s.* from fencepost.signals as s
     where s.run_id = $1 and ($2::bigint is null or s.id < $2) order by s.id desc limit $3`,
    [runId, after, max],
    options,
  )
}
