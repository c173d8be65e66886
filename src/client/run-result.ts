import type { Queryable, QueryOptions } from '../database/database.ts'
import { getRun, listTasks, type RunRow } from '../database/engine.ts'
import { type Duration, durationFrom, milliseconds } from '../definitions/duration.ts'
import { FencepostError } from '../errors.ts'
import { anything, checkOptions } from '../options.ts'
import { patiently } from './patience.ts'
import { RunFailedError, RunTimeoutError } from './run-ends.ts'

/** How a run is waited for. */
export interface ResultOptions {
  /** How long at most. Default: until it ends. */
  readonly timeout?: Duration | undefined
  /** Ends the waiting. */
  readonly signal?: AbortSignal | undefined
}

const checks = { timeout: durationFrom(0), signal: anything }

/** How many failed tasks an error names. */
const FAILURES = 20

/**
 * The output of a run, once it has completed. A database that does not answer is asked again.
 *
 * @throws RunFailedError when it failed, was cancelled or undone; RunTimeoutError; FencepostError JE002;
 *   the reason of the signal
 */
export async function resultOf(
  db: Queryable,
  id: number,
  options: ResultOptions,
): Promise<NonNullable<RunRow['output']>> {
  checkOptions('result', options, checks)
  const timeout = options.timeout === undefined ? undefined : milliseconds(options.timeout)
  let seen: RunRow | undefined
  const ended = await patiently(
    async (query) => {
      seen = await existing(db, id, query)
      return seen.finished_at === null && seen.status !== 'completed' ? undefined : seen
    },
    { timeout, signal: options.signal },
  )
  if (ended === undefined) throw new RunTimeoutError(id, seen?.status, timeout ?? 0)
  if (ended.status !== 'completed') throw await failure(db, ended)
  return ended.output ?? {}
}

async function existing(db: Queryable, id: number, options: QueryOptions): Promise<RunRow> {
  const run = await getRun(db, id, options)
  if (run !== undefined) return run
  throw new FencepostError('JE002', `run ${id} does not exist`, {
    detail: `received run_id = ${id}`,
    hint: 'See fencepost.runs.',
  })
}

async function failure(db: Queryable, run: RunRow): Promise<RunFailedError> {
  const tasks = await listTasks(db, run.id, { status: 'failed' }, { max: FAILURES })
  const failures = tasks
    .filter(({ cut }) => !cut)
    .map(({ name, error }) => ({ task: name, error: error ?? 'failed' }))
  return new RunFailedError(run, failures)
}
