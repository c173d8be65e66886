import type { Database } from '../database/database.ts'
import { isConnectionError } from '../database/database.ts'
import * as engine from '../database/engine.ts'
import { FencepostError } from '../errors.ts'
import { shown } from '../options.ts'
import { PausesUntil } from '../outbox/pauses-until.ts'
import { type Camelized, camelized } from './camel.ts'
import { on, type TransactionOption } from './new-job.ts'

/** Something that happened to a job, a run, a worker or by an operator, as readers of the event log get it. */
export type LogEvent = Camelized<engine.OutboxEvent>

/** How far a batch is acknowledged. */
export interface AckOptions extends TransactionOption {
  /** Acknowledge up to and with this event of the batch. Default: all. */
  readonly upTo?: LogEvent | undefined
}

/** What a consumer has read, and how it says that it is done. */
export interface BatchOf {
  readonly db: Database
  readonly consumer: string
  /** Until when it makes sense to try again, as performance.now() counts. */
  readonly leasedUntil: number
  readonly signal: AbortSignal
}

/** Events that were read together, in commit order. They come again until they are acknowledged. */
export class EventBatch {
  readonly events: readonly LogEvent[]
  readonly #of: BatchOf
  #isDone = false

  /** @internal */
  constructor(events: readonly engine.OutboxEvent[], of: BatchOf) {
    this.events = events.map(camelized)
    this.#of = of
  }

  /** True once all of it is acknowledged, as far as this process knows. */
  get acknowledged(): boolean {
    return this.#isDone
  }

  /**
   * Says that the events are done: they do not come again. False when that had been said before. With `tx` it is said
   * in the application's transaction, and holds if that commits: with what was written in it, exactly once. Without, a
   * lost connection is survived for as long as the lease lasts.
   *
   * @throws FencepostError JE001 when the lease was lost: another reader has the events too, and a transaction must be
   *   rolled back; JE002 when the consumer is gone; JE003 when `upTo` is no event; JE004 when it has expired
   */
  async ack(options: AckOptions = {}): Promise<boolean> {
    const { upTo } = options
    const last = this.events.at(-1) as LogEvent
    const position = upTo === undefined ? last.position : positionOf('batch.ack: upTo', upTo)
    const moved = Object.hasOwn(options, 'tx')
      ? await engine.ackEvents(on(this.#of.db, options), this.#of.consumer, position)
      : await this.#ackForSure(position)
    if (position === last.position) this.#isDone = true
    return moved
  }

  /**
   * Sets an event aside that cannot be delivered, with the reason. Acknowledge it then like the others.
   *
   * @throws FencepostError JE001 when the lease was lost; JE002; JE003 without an event or a reason
   */
  async park(event: LogEvent, reason: string, options: TransactionOption = {}): Promise<void> {
    const position = positionOf('batch.park: the event', event)
    if (typeof reason !== 'string') {
      throw new FencepostError('JE003', 'batch.park: an event is set aside with a reason', {
        detail: `received reason = ${shown(reason)}`,
        hint: 'Say in a text why it cannot be delivered.',
      })
    }
    await engine.parkEvent(on(this.#of.db, options), this.#of.consumer, position, reason)
  }

  /** An acknowledgement may be repeated, so that one whose answer was lost is. */
  async #ackForSure(position: string): Promise<boolean> {
    const { db, consumer, leasedUntil, signal } = this.#of
    using pauses = new PausesUntil(0, signal)
    for (;;) {
      try {
        return await engine.ackEvents(db, consumer, position)
      } catch (error) {
        const canWait = !signal.aborted && performance.now() < leasedUntil
        if (!isConnectionError(error) || !canWait) throw error
        await pauses.failed()
      }
    }
  }
}

/**
 * The place behind an event.
 *
 * @throws FencepostError JE003 when it is none
 */
function positionOf(what: string, event: unknown): string {
  const position = (event as Partial<LogEvent> | null | undefined)?.position
  if (typeof position === 'string') return position
  throw new FencepostError('JE003', `${what} must be an event of the batch`, {
    detail: `received ${shown(event)}`,
    hint: 'Give one of batch.events.',
  })
}
