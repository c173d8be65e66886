import type { Database } from '../database/database.ts'
import { isConnectionError } from '../database/database.ts'
import * as engine from '../database/engine.ts'
import { PausesUntil } from '../outbox/pauses.ts'
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
   *   rolled back; JE002 when the consumer is gone; JE004 when it has expired
   */
  async ack({ upTo, tx }: AckOptions = {}): Promise<boolean> {
    const last = this.events.at(-1) as LogEvent
    const event = upTo ?? last
    const moved =
      tx === undefined
        ? await this.#ackForSure(event.position)
        : await engine.ackEvents(on(this.#of.db, { tx }), this.#of.consumer, event.position)
    if (event.position === last.position) this.#isDone = true
    return moved
  }

  /**
   * Sets an event aside that cannot be delivered, with the reason. Acknowledge it then like the others.
   *
   * @throws FencepostError JE001 when the lease was lost; JE002; JE003 without a reason
   */
  park(event: LogEvent, reason: string, options: TransactionOption = {}): Promise<void> {
    return engine.parkEvent(on(this.#of.db, options), this.#of.consumer, event.position, reason)
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
