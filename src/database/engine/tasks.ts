import type { Queryable, QueryOptions } from '../database.ts'
import { json } from '../json.ts'
import { call, perform, rows, value } from './call.ts'
import type { Listed, Part } from './runs.ts'

/** Where a task stands. */
export type TaskStatus =
  | 'pending'
  | 'queued'
  | 'running'
  | 'waiting'
  | 'completed'
  | 'failed'
  | 'skipped'
  | 'cancelled'

/** A row of `fencepost.tasks`. */
export interface TaskRow {
  readonly id: number
  readonly run_id: number
  readonly name: string
  readonly kind:
    | 'job'
    | 'approval'
    | 'timer'
    | 'signal'
    | 'map'
    | 'workflow'
    | 'item'
    | 'compensation'
  readonly status: TaskStatus
  readonly attempts: number
  readonly output: unknown
  /** Why it failed or was skipped. */
  readonly error: string | null
  /** The type of its jobs, or the workflow that it runs. */
  readonly type: string | null
  readonly job_id: number | null
  readonly child_run_id: number | null
  /** The place of an item of a map, from 0. */
  readonly item: number | null
  /** The map of an item, or the task that a compensation undoes. */
  readonly parent_task_id: number | null
  /** The gate before it, while that is open. */
  readonly approval_id: number | null
  readonly due_at: Date | null
  readonly ready_at: Date | null
  readonly started_at: Date | null
  readonly finished_at: Date | null
  readonly unmet_parents: number
  /** The tasks that it waits for, by name. */
  readonly after: readonly string[]
  readonly items: number | null
  readonly items_open: number | null
  readonly items_failed: number | null
}

/** A task as lists show it. */
export type ListedTask = Omit<TaskRow, 'run_id'> & {
  /** The status of the task that undoes it; null when there is none. */
  readonly compensation: TaskStatus | null
}

/** What narrows a list of tasks; the keys are those of `fencepost.list_tasks`. */
export type TaskFilter = Readonly<Record<string, unknown>>

/**
 * Tasks of a run, parents before children; with `parent_task_id` in the filter the items of a map.
 *
 * @throws FencepostError JE002, JE003
 */
export function listTasks(
  db: Queryable,
  runId: number,
  filter: TaskFilter = {},
  { after, max }: Part = {},
  options?: QueryOptions,
): Promise<Listed<ListedTask>[]> {
  return rows(
    db,
    call('list_tasks', { run_id: runId, filter: json(filter), after_task: after, max }),
    options,
  )
}

/** A task by its id; undefined when there is none. */
export async function getTask(
  db: Queryable,
  taskId: number,
  options?: QueryOptions,
): Promise<TaskRow | undefined> {
  const [task] = await db.query<TaskRow>(
    'select t.* from fencepost.tasks as t where t.id = $1',
    [taskId],
    options,
  )
  return task
}

/**
 * Tries a failed task again; its run goes on when it completes.
 *
 * @throws FencepostError JE002; JE004 when it has not failed
 */
export function replayTask(db: Queryable, taskId: number, options?: QueryOptions): Promise<void> {
  return perform(db, call('replay_task', { task_id: taskId }), options)
}

/** A reason why a task is not running, or where it is. */
export interface TaskReasonRow {
  readonly reason: string
  readonly detail: string
  /** The SQL that would let it go on; null when nothing needs to be done. */
  readonly release: string | null
}

/**
 * Why a task of a run is not running now.
 *
 * @throws FencepostError JE002
 */
export function explainTask(
  db: Queryable,
  runId: number,
  task: string,
  options?: QueryOptions,
): Promise<TaskReasonRow[]> {
  return rows(db, call('explain_task', { run_id: runId, task }), options)
}

/** A gate before a task. */
export interface NewGate {
  /** Why it is asked for. */
  readonly reason?: string | undefined
  /** An SQL interval: how long it stays open. Default: without an end. */
  readonly expires_after?: string | undefined
}

/**
 * Puts a gate before a task that has not begun. Returns the approval's id.
 *
 * @throws FencepostError JE002, JE003; JE004 when it runs already, has ended or has a gate
 */
export function requestApproval(
  db: Queryable,
  taskId: number,
  gate: NewGate = {},
  options?: QueryOptions,
): Promise<number> {
  return value(db, call('request_approval', { ...gate, task_id: taskId }), options)
}

/** A row of `fencepost.approvals`. */
export interface ApprovalRow {
  readonly id: number
  readonly run_id: number
  /** The name of the task. */
  readonly task: string
  readonly status: 'pending' | 'approved' | 'rejected' | 'expired' | 'withdrawn'
  readonly workflow: string
  readonly task_id: number
  /** True when it was put before a task by {@link requestApproval}. */
  readonly is_gate: boolean
  readonly reason: string | null
  readonly requested_at: Date
  readonly requested_by: string
  readonly expires_at: Date | null
  readonly decided_at: Date | null
  readonly decided_by: string | null
  readonly comment: string | null
  readonly data: unknown
  readonly tenant: string | null
}

/** What narrows a list of approvals; the keys are those of `fencepost.list_approvals`. */
export type ApprovalFilter = Readonly<Record<string, unknown>>

/**
 * Approvals that match, newest first; at most 10,000 are looked at.
 *
 * @throws FencepostError JE003
 */
export function listApprovals(
  db: Queryable,
  filter: ApprovalFilter = {},
  { after, max }: Part = {},
  options?: QueryOptions,
): Promise<Listed<ApprovalRow>[]> {
  return rows(db, call('list_approvals', { filter: json(filter), after, max }), options)
}

/** An approval by its id; undefined when there is none. */
export async function getApproval(
  db: Queryable,
  approvalId: number,
  options?: QueryOptions,
): Promise<ApprovalRow | undefined> {
  const [approval] = await db.query<ApprovalRow>(
    'select a.* from fencepost.approvals as a where a.id = $1',
    [approvalId],
    options,
  )
  return approval
}

/** Who decides, and what they say. */
export interface Decided {
  /** Default: who acts in this session. */
  readonly decided_by?: string | undefined
  readonly comment?: string | undefined
  /** Any JSON: part of the output of an approval task. */
  readonly data?: unknown
}

/**
 * Approves: the run goes on.
 *
 * @throws FencepostError JE002, JE003 (a text too long), JE006 (data of more than 1 MiB); JE004 when it was decided before
 */
export function approve(
  db: Queryable,
  approvalId: number,
  decision: Decided = {},
  options?: QueryOptions,
): Promise<void> {
  return perform(db, call('approve', asArguments(approvalId, decision)), options)
}

/**
 * Rejects, with the consequence that the task's `on_reject` names.
 *
 * @throws FencepostError JE002, JE003 (a text too long), JE006 (data of more than 1 MiB); JE004 when it was decided before
 */
export function reject(
  db: Queryable,
  approvalId: number,
  decision: Decided = {},
  options?: QueryOptions,
): Promise<void> {
  return perform(db, call('reject', asArguments(approvalId, decision)), options)
}

function asArguments(approvalId: number, { data, ...rest }: Decided) {
  return { ...rest, approval_id: approvalId, data: data === undefined ? undefined : json(data) }
}
