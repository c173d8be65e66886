import type { RunRow } from '../database/engine.ts'

/** A task that failed, and why. */
export interface TaskFailure {
  readonly task: string
  readonly error: string
}

/** A run that was waited for did not complete: it failed, was cancelled, or was undone. */
export class RunFailedError extends Error {
  override readonly name = 'RunFailedError'
  readonly runId: number
  readonly workflow: string
  readonly version: number
  readonly status: 'failed' | 'cancelled' | 'compensated'
  /** Why it was cancelled, if somebody said so. */
  readonly reason: string | undefined
  /** The tasks that failed: the first 20. */
  readonly failures: readonly TaskFailure[]

  constructor(run: RunRow, failures: readonly TaskFailure[]) {
    const causes = failures.map(({ task, error }) => `${task}: ${error.split('\n')[0]}`)
    const why = [...(run.reason === null ? [] : [run.reason]), ...causes]
    super(
      `run ${run.id} of ${run.workflow} ${run.status}${why.length > 0 ? `: ${why.join('; ')}` : ''}`,
    )
    this.runId = run.id
    this.workflow = run.workflow
    this.version = run.version
    this.status = run.status as RunFailedError['status']
    this.reason = run.reason ?? undefined
    this.failures = failures
  }
}

/** A run that was waited for had not ended in time. It goes on. */
export class RunTimeoutError extends Error {
  override readonly name = 'RunTimeoutError'
  readonly runId: number
  /** How it stood when it was last seen; undefined when the database did not answer at all. */
  readonly status: RunRow['status'] | undefined

  constructor(runId: number, status: RunRow['status'] | undefined, timeout: number) {
    super(
      `run ${runId} had not ended after ${timeout} ms${status === undefined ? '' : `: it is ${status}`}`,
    )
    this.runId = runId
    this.status = status
  }
}
