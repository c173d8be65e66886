import type { Queryable, QueryOptions } from '../../database/database.ts'
import {
  type ApprovalRow,
  getRun,
  type ListedTask,
  listApprovals,
  listTasks,
  type RunRow,
} from '../../database/engine.ts'
import { FencepostError } from '../../errors.ts'

/** A run at a moment, as far as a screen can show it. */
export interface Snapshot {
  readonly run: RunRow
  /** All tasks of a small run; of a large one those that somebody may look for. */
  readonly tasks: readonly ListedTask[]
  /** True when not all tasks are there. */
  readonly partial: boolean
  /** The decisions that it waits for. */
  readonly approvals: readonly ApprovalRow[]
}

/** The most tasks that are shown as a graph. */
const SMALL = 200
/** How many tasks of a large run, and how many approvals, are looked at. */
const SOME = 20

/**
 * How a run stands.
 *
 * @throws FencepostError JE002
 */
export async function snapshotOf(
  db: Queryable,
  id: number,
  options?: QueryOptions,
): Promise<Snapshot> {
  const run = await getRun(db, id, options)
  if (run === undefined) {
    throw new FencepostError('JE002', `run ${id} does not exist`, {
      detail: `received id = ${id}`,
      hint: 'See fencepost run list.',
    })
  }
  const partial = run.total_tasks > SMALL
  const [tasks, asked] = await Promise.all([
    partial ? livelyTasks(db, id, options) : listTasks(db, id, {}, { max: SMALL }, options),
    listApprovals(db, { run_id: id, status: 'pending' }, { max: SOME }, options),
  ])
  return { run, tasks, partial, approvals: asked.filter(({ cut }) => !cut) }
}

/** Of a large run: what failed, runs and waits. */
async function livelyTasks(
  db: Queryable,
  id: number,
  options: QueryOptions | undefined,
): Promise<ListedTask[]> {
  const parts = await Promise.all(
    ['failed', 'running', 'waiting'].map((status) =>
      listTasks(db, id, { status }, { max: SOME }, options),
    ),
  )
  return parts.flat().filter(({ cut }) => !cut)
}
