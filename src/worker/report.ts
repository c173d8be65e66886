import type { Verdict } from '../database/engine.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { Attempt } from './attempt.ts'

/**
 * How an attempt ended, as far as its worker knows.
 * - `completed`, `failed`, `cancelled`, `timed_out`: so the engine recorded it.
 * - `suspended`, `released`: the handler stepped aside.
 * - `lost`: the lease was lost; others have the job, or it has ended.
 */
export type ReportedOutcome =
  | 'completed'
  | 'failed'
  | 'cancelled'
  | 'timed_out'
  | 'suspended'
  | 'released'
  | 'lost'

/** An attempt that ended. */
export interface AttemptReport {
  readonly job: number
  readonly type: string
  readonly attempt: number
  readonly token: number
  /** The name of the worker. */
  readonly worker: string
  readonly outcome: ReportedOutcome
  /** What became of the job, when the attempt failed. */
  readonly verdict?: Verdict
  /** How long the handler ran, in ms. */
  readonly duration_ms: number
  readonly error?: string
}

/** What is known of an attempt that ended, for the log and for whoever counts. */
export function reportOf(
  attempt: Attempt,
  worker: string,
  outcome: ReportedOutcome,
  verdict?: Verdict,
): AttemptReport {
  const { job, ending, startedAt } = attempt
  const endedAt = attempt.endedAt || performance.now()
  const report = {
    job: job.job_id,
    type: job.type,
    attempt: job.attempt,
    token: job.token,
    worker,
    outcome,
    duration_ms: startedAt === 0 ? 0 : Math.round((endedAt - startedAt) * 100) / 100,
  }
  if (verdict === undefined && ending?.kind !== 'failed') return report
  return {
    ...report,
    ...(verdict === undefined ? {} : { verdict }),
    ...(ending?.kind === 'failed' ? { error: ending.failure.error } : {}),
  }
}

/** How a failed attempt is called, by what became of it and why its handler was told to stop. */
export function failedOutcome(attempt: Attempt, verdict: Verdict): ReportedOutcome {
  if (verdict === 'cancelled') return 'cancelled'
  return attempt.aborted === 'timed_out' ? 'timed_out' : 'failed'
}

/** Writes the line of an attempt: one each. */
export function logReport(log: Logger, report: AttemptReport): void {
  const message = `${report.type} ${report.outcome}`
  if (report.outcome === 'completed' || report.verdict === undefined) log.info(report, message)
  else if (report.verdict === 'dead_letter') log.error(report, message)
  else log.warn(report, message)
}
