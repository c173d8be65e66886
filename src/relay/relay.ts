import type { Database } from '../database/database.ts'
import type { OutboxEvent } from '../database/engine.ts'
import * as engine from '../database/engine.ts'
import { interval } from '../definitions/duration.ts'
import { FencepostError } from '../errors.ts'
import { Pauses } from '../outbox/pauses.ts'
import { newReader } from '../outbox/reader.ts'
import { reasonOf } from '../outbox/reason.ts'
import { asRefusal } from '../refusal.ts'
import type { Logger } from '../telemetry/logger.ts'
import { within } from '../worker/within.ts'
import { type RelayHealth, Report } from './report.ts'
import type { Refused, Sink } from './sink.ts'

/** What a relay carries from where to where. */
export interface RelayOptions {
  readonly db: Database
  readonly sink: Sink
  /** The consumer of the event log, which exists. */
  readonly consumer: string
  readonly log: Logger
  /** The most events that are published at a time. */
  readonly max: number
  /** How long nobody else may read when this process dies, in ms. */
  readonly lease: number
  /** The longest pause between two looks for events, in ms. */
  readonly poll: number
  /** How long the batch under way may take once it is asked to stop, in ms. */
  readonly stopDeadline: number
}

/** How much of its lease a batch may take: the rest is for clocks that differ. */
const LEASE_SHARE = 0.8

/**
 * Carries the events of a consumer to a sink: reads a batch, publishes it, acknowledges it. At least once and in
 * order, since nothing is acknowledged before the sink holds all of it, and nothing after it is read before that.
 *
 * It remembers nothing: whatever fails, it pauses, reads the same events again, which also keeps the lease, and
 * publishes them again. What can never be published is parked with its reason, and the rest goes on.
 */
export class Relay {
  readonly #options: RelayOptions
  readonly #reader = newReader()
  readonly #pauses: Pauses
  readonly #report: Report
  readonly #giveUp = new AbortController()
  #isStopping = false
  #running: Promise<void> | undefined

  constructor(options: RelayOptions) {
    this.#options = options
    this.#pauses = new Pauses(options.poll)
    this.#report = new Report(options.log)
  }

  /** How it stands. */
  get health(): RelayHealth {
    return this.#report.health
  }

  /**
   * Carries until it is stopped.
   *
   * @throws FencepostError when no repetition can help: the consumer is gone (JE002) or has expired, the schema does
   *   not fit (JE011), the role may not read (JE009)
   */
  run(): Promise<void> {
    this.#running ??= this.#run()
    return this.#running
  }

  /** Lets the batch under way be published and acknowledged, for as long as `stopDeadline`; what is not comes again. */
  async stop(): Promise<void> {
    this.#isStopping = true
    this.#pauses.end()
    const ended = (this.#running ?? Promise.resolve()).catch(() => {})
    if (await within(ended, this.#options.stopDeadline)) return
    this.#options.log.warn({}, 'the batch under way took too long, and will come again')
    this.#giveUp.abort()
    await ended
  }

  async #run(): Promise<void> {
    try {
      while (!this.#isStopping) await this.#round()
    } finally {
      this.#report.stopped()
      await this.#options.sink.close()
    }
  }

  async #round(): Promise<void> {
    try {
      const found = await this.#carry()
      if (found) this.#pauses.found()
      else await this.#pauses.idle()
    } catch (error) {
      const refusal = asRefusal(error)
      if (isHopeless(refusal)) throw refusal
      if (this.#giveUp.signal.aborted) return
      this.#report.failed(refusal)
      await this.#pauses.failed()
    }
  }

  /** One batch; false when there was none. */
  async #carry(): Promise<boolean> {
    const { db, sink, consumer, max, lease } = this.#options
    const readAt = performance.now()
    const events = await engine.readEvents(db, {
      consumer,
      max,
      reader: this.#reader,
      lease: interval(lease),
    })
    if (events.length === 0) {
      this.#report.idle()
      return false
    }
    this.#report.begun()
    // without the lease another reader publishes what comes next: nothing of ours may follow that
    const left = Math.max(Math.floor(lease * LEASE_SHARE - (performance.now() - readAt)), 0)
    const signal = AbortSignal.any([this.#giveUp.signal, AbortSignal.timeout(left)])
    const refused = await sink.publish(events, signal)
    await this.#park(refused)
    await engine.ackEvents(db, consumer, (events.at(-1) as OutboxEvent).position)
    this.#report.carried(events.length - refused.length, refused)
    return true
  }

  /** Sets aside what was refused, before the position passes it. */
  async #park(refused: readonly Refused[]): Promise<void> {
    const { db, consumer } = this.#options
    for (const { event, reason } of refused) {
      await engine.parkEvent(db, consumer, event.position, reasonOf(reason))
    }
  }
}

/** A refusal that repeats itself. A lost lease does not: the other reader has read what we did not acknowledge. */
function isHopeless(error: unknown): boolean {
  return error instanceof FencepostError && error.code !== 'JE001'
}
