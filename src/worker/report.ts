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
function reportOf(
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

/** What a worker has counted since it was made. */
export type WorkerCounters = Readonly<Record<'claimed' | ReportedOutcome, number>>

/** Tells how attempts ended: one line of the log each, a counter, and whoever listens. */
export class Reporter {
  readonly counters: Record<keyof WorkerCounters, number> = {
    claimed: 0,
    completed: 0,
    failed: 0,
    cancelled: 0,
    timed_out: 0,
    suspended: 0,
    released: 0,
    lost: 0,
  }
  readonly #worker: string
  readonly #log: Logger
  readonly #listener: (report: AttemptReport) => void

  constructor(worker: string, log: Logger, listener: (report: AttemptReport) => void) {
    this.#worker = worker
    this.#log = log
    this.#listener = listener
  }

  ended(attempt: Attempt, outcome: ReportedOutcome, verdict?: Verdict): void {
    this.counters[outcome]++
    const report = reportOf(attempt, this.#worker, outcome, verdict)
    this.#write(report)
    try {
      this.#listener(report)
    } catch (error) {
      this.#log.error({ error }, 'onAttempt threw')
    }
  }

  #write(report: AttemptReport): void {
    const message = `${report.type} ${report.outcome}`
    if (report.outcome === 'completed' || report.verdict === undefined) {
      this.#log.info(report, message)
    } else if (report.verdict === 'dead_letter') this.#log.error(report, message)
    else this.#log.warn(report, message)
  }
}
