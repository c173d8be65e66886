import type { OutboxEvent } from '../database/engine.ts'

/** An event that the other side will never take, and why. */
export interface Refused {
  readonly event: OutboxEvent
  readonly reason: string
}

/** Where a relay publishes events. */
export interface Sink {
  /** What logs call it. */
  readonly name: string
  /**
   * Publishes events in this order. It resolves once the other side holds all of them for sure, except those that
   * it refuses for good; it rejects when that is not known of one or more: then all of them come again, later and
   * first, so that the order holds. It settles in time, whatever the other side does.
   *
   * @param signal aborted when it shall give up
   */
  publish(events: readonly OutboxEvent[], signal: AbortSignal): Promise<readonly Refused[]>
  /** Ends its connections at once. */
  close(): Promise<void>
}
