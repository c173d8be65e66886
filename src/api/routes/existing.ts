import type { Queryable } from '../../database/database.ts'
import {
  type ApprovalRow,
  getApproval,
  getJob,
  getRun,
  getTask,
  getWorkflow,
  type JobRow,
  type RunRow,
  type TaskRow,
  type WorkflowRow,
} from '../../database/engine.ts'
import { FencepostError } from '../../errors.ts'

/**
 * A job that exists.
 *
 * @throws FencepostError JE002
 */
export async function existingJob(db: Queryable, id: number): Promise<JobRow> {
  const job = await getJob(db, id)
  return job ?? missing('job', id, 'Finished jobs are removed after keep_finished of their type.')
}

/**
 * A workflow that exists.
 *
 * @throws FencepostError JE002
 */
export async function existingWorkflow(db: Queryable, name: string): Promise<WorkflowRow> {
  const workflow = await getWorkflow(db, name)
  return workflow ?? missing('workflow', name, 'Publish it with POST /workflows.')
}

/**
 * A run that exists.
 *
 * @throws FencepostError JE002
 */
export async function existingRun(db: Queryable, id: number): Promise<RunRow> {
  return (await getRun(db, id)) ?? missing('run', id, 'See /runs.')
}

/**
 * A task that exists.
 *
 * @throws FencepostError JE002
 */
export async function existingTask(db: Queryable, id: number): Promise<TaskRow> {
  return (await getTask(db, id)) ?? missing('task', id, 'See /runs/{id}/tasks.')
}

/**
 * An approval that exists.
 *
 * @throws FencepostError JE002
 */
export async function existingApproval(db: Queryable, id: number): Promise<ApprovalRow> {
  return (await getApproval(db, id)) ?? missing('approval', id, 'See /approvals.')
}

function missing(what: string, key: number | string, hint: string): never {
  const isName = typeof key === 'string'
  const shown = isName ? key.slice(0, 200) : key
  throw new FencepostError('JE002', `${what} ${shown} does not exist`, {
    detail: `received ${isName ? 'name' : 'id'} = ${shown}`,
    hint,
  })
}
