import { setTimeout as sleep } from 'node:timers/promises'
import { ConnectionLostError, isConnectionError, type Queryable } from '../database/database.ts'
import { getRun, listTasks, type RunRow } from '../database/engine.ts'
import { type Duration, durationFrom, milliseconds } from '../definitions/duration.ts'
import { FencepostError } from '../errors.ts'
import { anything, checkOptions } from '../options.ts'
import { RunFailedError, RunTimeoutError } from './run-ends.ts'

/** How a run is waited for. */
export interface ResultOptions {
  /** How long at most. Default: until it ends. */
  readonly timeout?: Duration | undefined
  /** Ends the waiting. */
  readonly signal?: AbortSignal | undefined
}

const checks = { timeout: durationFrom(0), signal: anything }

/** The waits between looks grow from the first to the longest, in ms. */
const FIRST = 20
const GROWTH = 1.5
const LONGEST = 1_000

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
  const { signal } = options
  const timeout = options.timeout === undefined ? undefined : milliseconds(options.timeout)
  const deadline = timeout === undefined ? Number.POSITIVE_INFINITY : performance.now() + timeout
  let seen: RunRow | undefined
  for (let wait = FIRST; ; wait = Math.min(wait * GROWTH, LONGEST)) {
    signal?.throwIfAborted()
    seen = (await look(db, id, signal)) ?? seen
    if (seen?.status === 'completed') return seen.output ?? {}
    if (seen !== undefined && seen.finished_at !== null) throw await failure(db, seen)
    const left = deadline - performance.now()
    if (left <= 0) throw new RunTimeoutError(id, seen?.status, timeout ?? 0)
    await sleep(Math.min(wait, left), undefined, signal === undefined ? {} : { signal }).catch(() =>
      signal?.throwIfAborted(),
    )
  }
}

/** The run as it stands; undefined when the database does not answer now. */
async function look(
  db: Queryable,
  id: number,
  signal: AbortSignal | undefined,
): Promise<RunRow | undefined> {
  let run: RunRow | undefined
  try {
    run = await getRun(db, id, signal === undefined ? {} : { signal })
  } catch (error) {
    signal?.throwIfAborted()
    const isOver = error instanceof ConnectionLostError && error.code === 'CLOSED'
    if (isOver || !isConnectionError(error)) throw error
    return undefined
  }
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
