import { Backoff } from '../database/backoff.ts'
import type { Database } from '../database/database.ts'
import type { AttemptDirective, Verdict } from '../database/engine.ts'
import * as engine from '../database/engine.ts'
import { isClosed } from '../database/errors.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { Attempt } from './attempt.ts'
import { plainFailure } from './failure.ts'
import type { Outbox } from './outbox.ts'
import { isTransient } from './refusals.ts'
import { failedOutcome, type ReportedOutcome } from './report.ts'
import type { Runner } from './runner.ts'

/** What a settler works with, and whom it tells. */
export interface SettlerOptions {
  readonly db: Database
  readonly log: Logger
  readonly runner: Runner
  readonly outbox: Outbox
  /** It is known how an attempt ended. */
  readonly settled: (attempt: Attempt, outcome: ReportedOutcome, verdict?: Verdict) => void
  /** A question about an attempt is answered: there may be something to send, or nothing more. */
  readonly asked: () => void
}

/** An attempt, among the answers of one round: a worker may report two of one job at once. */
export function keyOf({ job_id, token }: Pick<AttemptDirective, 'job_id' | 'token'>): string {
  return `${job_id} ${token}`
}

/** What becomes of results that were sent. */
export class Settler {
  readonly #options: SettlerOptions

  constructor(options: SettlerOptions) {
    this.#options = options
  }

  /**
   * A handler has ended that completed its job in a transaction of its own: whether that committed is
   * asked first. If it did not, the job ends as the handler did. If it is still open, the database lets
   * us wait for it: see {@link Outbox.takeLocked}.
   */
  ask(attempt: Attempt): Promise<void> {
    return this.#inquire(attempt, () => {
      if (!attempt.lost) this.#options.outbox.add(attempt)
    })
  }

  /** The engine answered: what it says nothing of, it accepted. */
  answered(results: readonly Attempt[], told: ReadonlyMap<string, AttemptDirective>): void {
    for (const attempt of results) {
      const directive = told.size === 0 ? undefined : told.get(keyOf(attempt.job))?.directive
      if (directive === 'busy') this.#options.outbox.rest([attempt])
      else if (directive !== 'lost') this.#accepted(attempt, directive as Verdict | undefined)
      else this.#refusedAsLost(attempt)
    }
  }

  /** Nothing was done, for a reason that lies in what was sent: each is sent alone, then replaced. */
  refused(error: Error, results: readonly Attempt[]): void {
    const { outbox, runner, log } = this.#options
    for (const attempt of results) {
      if (results.length > 1) attempt.alone = true
      else if (!replace(attempt, error)) {
        log.error({ error, job: attempt.job.job_id }, 'a result was refused, and is given up')
        runner.giveUp(attempt)
        return
      }
    }
    outbox.putBack(results)
  }

  /** The worker's incarnation was lost, and with it all that it held. */
  lost(results: readonly Attempt[]): void {
    for (const attempt of results) this.#refusedAsLost(attempt)
  }

  /** No answer came. They are sent again, and `isUnknown` that they may have been accepted. */
  unanswered(results: readonly Attempt[], isUnknown: boolean): void {
    for (const attempt of results) attempt.doubtful ||= isUnknown
    this.#options.outbox.putBack(results.filter((attempt) => !attempt.lost))
  }

  #accepted(attempt: Attempt, verdict: Verdict | undefined): void {
    if (attempt.completing) {
      this.#options.log.warn(
        { job: attempt.job.job_id },
        'the transaction in which the handler completed its job did not commit: the job ends as the handler did',
      )
    }
    if (verdict === undefined) this.#settle(attempt, 'completed')
    else this.#settle(attempt, failedOutcome(attempt, verdict), verdict)
  }

  /** How it ended is told once: what was given up as lost meanwhile was told of already. */
  #settle(attempt: Attempt, outcome: ReportedOutcome, verdict?: Verdict): void {
    this.#options.runner.settle(attempt)
    if (!attempt.lost) this.#options.settled(attempt, outcome, verdict)
  }

  /** The lease is gone. It may be that the attempt ended well before: the history knows. */
  #refusedAsLost(attempt: Attempt): void {
    const { runner } = this.#options
    if (attempt.doubtful && !attempt.lost) {
      void this.#inquire(attempt, () => runner.giveUp(attempt))
    } else {
      runner.giveUp(attempt)
    }
  }

  /** Settles an attempt as the history says that it ended; `otherwise` when it does not say so. */
  async #inquire(attempt: Attempt, otherwise: () => void): Promise<void> {
    const { outbox, asked } = this.#options
    outbox.doubt(attempt)
    const outcome = await this.#outcomeOf(attempt)
    outbox.know(attempt)
    switch (outcome) {
      case 'completed':
      case 'failed':
      case 'cancelled':
      case 'timed_out':
        this.#settle(attempt, outcome)
        break
      default:
        otherwise()
    }
    asked()
  }

  /** What the history says of an attempt; undefined when it does not know, or does not answer. */
  async #outcomeOf({ job }: Attempt): Promise<engine.AttemptOutcome | null | undefined> {
    const backoff = new Backoff()
    for (let tries = TRIES; tries > 0; tries--) {
      try {
        return await engine.attemptOutcome(this.#options.db, job.job_id, job.token)
      } catch (error) {
        if (!isTransient(error) || isClosed(error)) break
        await backoff.wait()
      }
    }
    return undefined
  }
}

/** How often the history is asked, when connections keep breaking. */
const TRIES = 8

/** Puts something simpler in the place of a result that was refused; false when it is simple already. */
function replace(attempt: Attempt, error: Error): boolean {
  const { ending } = attempt
  if (ending?.kind === 'completed') {
    attempt.replaceBy(plainFailure(`the result was refused: ${error.message}`, true))
    return true
  }
  if (ending?.kind === 'failed' && ending.failure.details !== null) {
    attempt.replaceBy(plainFailure('the handler failed with an error that cannot be stored'))
    return true
  }
  return false
}
