import { type Database, DatabaseError, type Queryable } from '../database/database.ts'
import type { OutboxEvent } from '../database/engine.ts'
import * as engine from '../database/engine.ts'
import { FencepostError } from '../errors.ts'
import { unlessHopeless } from '../outbox/hopeless.ts'
import { PausesUntil } from '../outbox/pauses-until.ts'
import { reasonOf } from '../outbox/reason.ts'
import { asRefusal } from '../refusal.ts'
import type { Logger } from '../telemetry/logger.ts'
import { describeFailure, PermanentError } from '../worker/failure.ts'
import { isTransient } from '../worker/refusals.ts'
import { camelized } from './camel.ts'
import type { LogEvent } from './event-batch.ts'

/**
 * Works on events inside a transaction. What it writes with `tx` and that the events are done is committed together,
 * or not at all.
 *
 * @param signal aborted when the process wants to end: the transaction may still be finished
 */
export type EventHandler = (
  events: readonly LogEvent[],
  tx: Queryable,
  signal: AbortSignal,
) => unknown

/** What consumes what, and how. */
export interface ConsumptionOf {
  readonly db: Database
  readonly consumer: string
  readonly reader: string
  readonly handler: EventHandler
  readonly max: number
  /** How often an event may fail alone before it is parked. */
  readonly maxAttempts: number
  /** In ms. */
  readonly poll: number
  readonly signal: AbortSignal
  readonly log: Logger
}

/** The handler, or the commit of what it did, failed on these events. */
class HandlingFailed extends Error {
  readonly events: readonly OutboxEvent[]

  constructor(events: readonly OutboxEvent[], cause: unknown) {
    super('the handler of events failed', { cause })
    this.events = events
  }
}

/**
 * Consumes exactly once: reads, lets the handler work, and acknowledges, in one transaction. A batch that fails comes
 * again in parts, down to single events, so that one which always fails is found; that one is tried until it works, or
 * until it is parked.
 */
export class Consumption {
  readonly #of: ConsumptionOf
  /** How many events are read at a time now: fewer after a failure. */
  #max: number
  /** The event that fails alone, and how often it has. */
  #failing: { readonly id: number; readonly times: number } | undefined

  constructor(of: ConsumptionOf) {
    this.#of = of
    this.#max = of.max
  }

  /**
   * Consumes until the signal is aborted; the transaction under way is finished.
   *
   * @throws FencepostError when no repetition can help: the consumer is gone (JE002) or has expired (JE004), the
   *   schema does not fit (JE011)
   */
  async run(): Promise<void> {
    const { consumer, signal, poll, log } = this.#of
    using pauses = new PausesUntil(poll, signal)
    while (!signal.aborted) {
      try {
        if ((await this.#round()) > 0) pauses.found()
        else await pauses.idle()
      } catch (error) {
        const failed = error instanceof HandlingFailed ? error : undefined
        if (signal.aborted && failed === undefined) return
        const trouble = failed === undefined ? unlessHopeless(error) : failed.cause
        log.warn({ consumer, error: trouble }, 'events were not consumed; they come again')
        const isBetter = failed !== undefined && (await this.#failed(failed))
        if (!isBetter) await pauses.failed()
      }
    }
  }

  /** One transaction; how many events it consumed. */
  async #round(): Promise<number> {
    const { db } = this.#of
    const handled: OutboxEvent[] = []
    try {
      await db.transaction(async (tx) => {
        const events = await this.#read(tx, this.#max)
        const last = events.at(-1)
        if (last === undefined) return
        handled.push(...events)
        await this.#handle(events, tx)
        await this.#ack(tx, last)
      })
    } catch (error) {
      if (handled.length === 0) throw error
      if (!isNoFaultOfTheirs(error)) throw new HandlingFailed(handled, error)
      this.#max = Math.ceil(handled.length / 2) // it may be that they were too many for the server's limits
      throw error
    }
    if (handled.length > 0) this.#succeeded()
    return handled.length
  }

  #read(tx: Queryable, max: number): Promise<OutboxEvent[]> {
    const { consumer, reader, signal } = this.#of
    return engine.readEvents(tx, { consumer, reader, max }, { signal })
  }

  async #ack(tx: Queryable, { position }: OutboxEvent): Promise<void> {
    try {
      await engine.ackEvents(tx, this.#of.consumer, position)
    } catch (error) {
      throw asRefusal(error)
    }
  }

  async #handle(events: readonly OutboxEvent[], tx: Queryable): Promise<void> {
    const { handler, signal } = this.#of
    await handler(events.map(camelized), tx, signal)
  }

  #succeeded(): void {
    this.#failing = undefined
    this.#max = Math.min(this.#of.max, this.#max * 2)
  }

  /** What comes of a failure; true when the next round has another chance, and need not wait. */
  async #failed({ events, cause }: HandlingFailed): Promise<boolean> {
    const [first] = events as [OutboxEvent]
    if (events.length > 1) {
      this.#max = Math.ceil(events.length / 2)
      return true
    }
    const times = this.#failing?.id === first.id ? this.#failing.times + 1 : 1
    this.#failing = { id: first.id, times }
    const isOver = cause instanceof PermanentError || times >= this.#of.maxAttempts
    return isOver && (await this.#park(first, cause))
  }

  /** Sets the event aside, so that those behind it are reached; false when that failed too. */
  async #park({ id, kind }: OutboxEvent, cause: unknown): Promise<boolean> {
    const { db, consumer, log } = this.#of
    const reason = reasonOf(describeFailure(cause).error)
    let isParked = false
    try {
      isParked = await db.transaction(async (tx) => {
        const [again] = await this.#read(tx, 1)
        if (again?.id !== id) return false // another reader has it now
        await engine.parkEvent(tx, consumer, again.position, reason)
        await engine.ackEvents(tx, consumer, again.position)
        return true
      })
    } catch (error) {
      unlessHopeless(error)
      return false
    }
    if (isParked) {
      log.error({ consumer, event: id, kind, reason }, 'an event was parked: its handler failed')
    }
    this.#failing = undefined
    return isParked
  }
}

/**
 * Whether a failure says nothing about the events: the server is gone, full or told to stop a statement, transactions
 * met, the lease was lost; or the role may not acknowledge.
 */
function isNoFaultOfTheirs(error: unknown): boolean {
  if (error instanceof FencepostError) return OURS.has(error.code)
  if (error instanceof DatabaseError && NEVER_HERE.has(error.code)) return false
  return isTransient(error)
}

const OURS: ReadonlySet<string> = new Set(['JE001', 'JE009', 'JE011'])

/**
 * Of the classes that tell of the server the codes that tell of a statement: an object in another state, a value that
 * its type has only after the commit, a file that is not there, or is there already.
 */
const NEVER_HERE: ReadonlySet<string> = new Set(['55000', '55P04', '58P01', '58P02'])
