import type { Logger } from '../telemetry/logger.ts'
import type { HeldDirective, PulseNews } from './pulse-loop.ts'
import type { Runner } from './runner.ts'

/** Who carries directives out, and whom they concern. */
export interface DirectivesOptions {
  /** The worker's name. */
  readonly name: string
  readonly log: Logger
  readonly runner: Runner
  readonly incarnationLost: (incarnation: number) => void
  /** An operator asks the worker to end. */
  readonly drain: () => void
}

/** How long the cancellation of a job that is not here yet is kept, in ms. */
const EARLY = 5_000

/** Carries out what the engine wants of this worker and of single attempts. */
export class Directives {
  readonly #options: DirectivesOptions
  /** Jobs whose cancellation arrived before they did. */
  readonly #early = new Set<number>()

  constructor(options: DirectivesOptions) {
    this.#options = options
  }

  /** The pulse has something to tell. */
  hear(news: PulseNews): void {
    const { log, name, incarnationLost, drain } = this.#options
    switch (news.kind) {
      case 'directives':
        for (const each of news.directives) this.#obey(each)
        break
      case 'lost':
        incarnationLost(news.incarnation)
        break
      case 'drain':
        drain()
        break
      case 'trouble':
        log.error({ worker: name }, `housekeeping fails: ${news.message}`)
        break
      case 'blocked': {
        const { types } = news
        const ms = Math.round(news.ms)
        const suspects = types.join(' or ') || 'code outside of handlers'
        log.warn(
          { worker: name, types, blocked_ms: ms },
          `the event loop was blocked for ${ms} ms, probably by ${suspects}`,
        )
      }
    }
  }

  /** Jobs of this worker are to be cancelled. */
  cancel(jobs: readonly number[]): void {
    for (const job of jobs) {
      if (!this.#cancelHeld(job)) this.#early.add(job)
    }
    // Those that are not on their way to us have ended.
    if (this.#early.size > 0) setTimeout(() => this.#early.clear(), EARLY).unref()
  }

  /** Jobs have arrived. */
  arrived(): void {
    for (const job of this.#early) {
      if (this.#cancelHeld(job)) this.#early.delete(job)
    }
  }

  #obey({ job, token, directive }: HeldDirective): void {
    const { runner } = this.#options
    const attempt = runner.find(job)
    // Of an attempt that has ended, the answer to its result will tell.
    if (attempt?.job.token !== token || attempt.ending !== undefined) return
    if (directive === 'lost') runner.lose(attempt)
    else runner.abort(attempt, directive === 'cancel' ? 'cancelled' : 'timed_out')
  }

  #cancelHeld(job: number): boolean {
    const { runner } = this.#options
    const attempt = runner.find(job)
    if (attempt !== undefined) runner.abort(attempt, 'cancelled')
    return attempt !== undefined
  }
}
