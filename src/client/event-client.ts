import type { Database } from '../database/database.ts'
import * as engine from '../database/engine.ts'
import { interval, milliseconds } from '../definitions/duration.ts'
import { callable, checkArgument, checkOptions } from '../options.ts'
import { follow } from '../outbox/follow.ts'
import { newReader } from '../outbox/reader.ts'
import { createLogger } from '../telemetry/logger.ts'
import { type Camelized, camelized } from './camel.ts'
import { Consumption, type EventHandler } from './consumption.ts'
import type { EventBatch, LogEvent } from './event-batch.ts'
import {
  type ConsumeOptions,
  type ConsumerOptions,
  consumeChecks,
  consumerChecks,
  type FollowLogOptions,
  followChecks,
  type PollOptions,
  place,
  placeOf,
  type SubscribeOptions,
  subscribeChecks,
} from './event-options.ts'
import { on, type TransactionOption } from './new-job.ts'
import { subscription } from './subscription.ts'

/** A consumer as it stands. */
export type ConsumerInfo = Camelized<engine.ConsumerRow>
/** An event that a consumer set aside. */
export type ParkedEvent = Camelized<engine.ParkedEventRow>

/** What an application does with the event log; a part of `Fencepost`. */
export abstract class EventClient {
  readonly #closing = new AbortController()
  readonly #consuming = new Set<Promise<void>>()

  /** The database, for statements of one's own. */
  abstract get database(): Database

  /**
   * Makes an independent reader of the event log; false when it exists already, with these settings. Call it at every
   * start of the application.
   *
   * @throws FencepostError JE003; JE004 when it exists with other settings
   */
  async createConsumer(
    name: string,
    options: ConsumerOptions & TransactionOption = {},
  ): Promise<boolean> {
    checkOptions('createConsumer', options, consumerChecks)
    const { filter, start, maxLag } = options
    const max_lag = typeof maxLag === 'number' || maxLag ? interval(maxLag) : maxLag
    const consumer = { name, filter, start: placeOf(start), max_lag }
    return engine.createConsumer(on(this.database, options), consumer)
  }

  /**
   * Reads a consumer, batch by batch, at least once: what is not acknowledged comes again, to this reader or to another
   * when its lease has ended. It goes on after lost connections, and ends when the signal is aborted or the loop is left.
   *
   * ```ts
   * for await (const batch of engine.subscribe('analytics', { max: 500, signal })) {
   *   await store(batch.events)
   *   await batch.ack() // or batch.ack({ tx }): with what the application writes in its own transaction, exactly once
   * }
   * ```
   *
   * The next batch is read when the body is done with the one before, so a process never holds more than one. A body
   * that takes longer than the lease is not stopped: its `ack()` is refused with JE001.
   *
   * @throws FencepostError JE002 when there is no such consumer; JE003; JE004 when it fell behind its `maxLag`, or after a
   *   logical restore
   */
  subscribe(consumer: string, options: SubscribeOptions = {}): AsyncGenerator<EventBatch, void> {
    checkOptions('subscribe', options, subscribeChecks)
    const { reader = newReader(), lease = '30s' } = options
    return subscription({
      ...this.#polling(options),
      consumer,
      reader,
      lease: milliseconds(lease),
    })
  }

  /**
   * Consumes exactly once: the handler's writes with `tx`, and that the events are done, are one transaction.
   *
   * ```ts
   * await engine.consume('billing', async (events, tx) => {
   *   for (const event of events) await tx.query('insert into charges …', [event.jobId])
   * }, { signal })
   * ```
   *
   * A handler that throws has done nothing. Its events come again, later each time and in smaller parts, until those that
   * fail are alone: see `maxAttempts`. It goes on after lost connections. A second process with the same consumer
   * does nothing until the first is gone.
   *
   * Resolves when the signal is aborted, or the engine closed, and the transaction under way has ended.
   *
   * @throws FencepostError JE002 when there is no such consumer; JE003; JE004 when it fell behind its `maxLag`, or after a
   *   logical restore
   */
  async consume(
    consumer: string,
    handler: EventHandler,
    options: ConsumeOptions = {},
  ): Promise<void> {
    checkOptions('consume', options, consumeChecks)
    checkArgument('consume', 'handler', handler, callable)
    const { reader = newReader(), maxAttempts = Number.POSITIVE_INFINITY } = options
    const of = { ...this.#polling(options), consumer, reader, handler, maxAttempts }
    const running = new Consumption(of).run()
    const settled = running.catch(() => {})
    this.#consuming.add(settled)
    await running.finally(() => this.#consuming.delete(settled))
  }

  /**
   * Follows the log without a consumer: event by event, in commit order, each once. Nothing is remembered: who keeps
   * the `position` of the last event goes on after it without a gap, for as long as the log is kept. It ends when the
   * signal is aborted or the loop is left.
   *
   * @throws FencepostError JE003 for a place or a filter that is none; JE004 after a logical restore
   */
  async *follow(options: FollowLogOptions = {}): AsyncGenerator<LogEvent, void> {
    checkOptions('follow', options, followChecks)
    const { db, log, ...polling } = this.#polling(options)
    const after = await engine.eventPosition(db, placeOf(options.after))
    const looks = follow(db, {
      ...polling,
      after,
      filter: options.filter,
      onTrouble: (error) => log.warn({ error }, 'events could not be read; it goes on trying'),
    })
    for await (const { events } of looks) yield* events.map(camelized)
  }

  /** All consumers, by name. */
  async consumers(): Promise<ConsumerInfo[]> {
    return (await engine.consumers(this.database)).map(camelized)
  }

  /** A consumer as it stands; undefined when there is none of this name. */
  async consumer(name: string): Promise<ConsumerInfo | undefined> {
    const row = await engine.getConsumer(this.database, name)
    return row && camelized(row)
  }

  /**
   * Moves a consumer: to `beginning` (of what is kept), `now`, a time or a position. Its reader loses the lease; one that
   * had expired reads again. Returns the new position.
   *
   * @throws FencepostError JE001 when it is just being consumed in a transaction; JE002; JE003
   */
  async seekConsumer(
    name: string,
    to: Date | string,
    options: TransactionOption = {},
  ): Promise<string> {
    checkArgument('seekConsumer', 'to', to, place)
    return engine.seekConsumer(on(this.database, options), name, placeOf(to))
  }

  /**
   * Removes a consumer, its position and its parked events; false when there was none.
   *
   * @throws FencepostError JE001 when it is just being consumed in a transaction
   */
  async dropConsumer(name: string, options: TransactionOption = {}): Promise<boolean> {
    return engine.dropConsumer(on(this.database, options), name)
  }

  /** The events that a consumer set aside, oldest first. */
  async parkedEvents(
    consumer: string,
    page: { readonly after?: number; readonly limit?: number } = {},
  ): Promise<ParkedEvent[]> {
    return (await engine.parkedEvents(this.database, consumer, page)).map(camelized)
  }

  /**
   * Lets parked events be read again, before anything else: all, or these. How many.
   *
   * @throws FencepostError JE002
   */
  replayParked(consumer: string, eventIds?: readonly number[]): Promise<number> {
    return engine.replayParked(this.database, consumer, eventIds)
  }

  /**
   * Removes parked events for good: all, or these. How many.
   *
   * @throws FencepostError JE002
   */
  discardParked(consumer: string, eventIds?: readonly number[]): Promise<number> {
    return engine.discardParked(this.database, consumer, eventIds)
  }

  /** Ends all that reads events, and waits for the transactions under way. */
  protected async endReading(): Promise<void> {
    this.#closing.abort()
    await Promise.all(this.#consuming)
  }

  #polling({ signal, max = 100, poll = '1s', logger = createLogger() }: PollOptions) {
    const { signal: closing } = this.#closing
    return {
      db: this.database,
      max,
      poll: milliseconds(poll),
      signal: signal === undefined ? closing : AbortSignal.any([signal, closing]),
      log: logger,
    }
  }
}
