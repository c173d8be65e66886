import type { Database } from '../database/database.ts'
import * as engine from '../database/engine.ts'
import { interval } from '../definitions/duration.ts'
import { unlessHopeless } from '../outbox/hopeless.ts'
import { PausesUntil } from '../outbox/pauses-until.ts'
import type { Logger } from '../telemetry/logger.ts'
import { EventBatch } from './event-batch.ts'

/** How a consumer is read, batch by batch. */
export interface SubscriptionOf {
  readonly db: Database
  readonly consumer: string
  readonly reader: string
  readonly max: number
  /** In ms. */
  readonly lease: number
  readonly poll: number
  readonly signal: AbortSignal
  readonly log: Logger
}

/**
 * The batches of a consumer, one after another. The next is read once the caller is done with the one before; if that
 * was not acknowledged, it comes again, after a pause.
 */
export async function* subscription(of: SubscriptionOf): AsyncGenerator<EventBatch, void> {
  const { db, consumer, lease, signal, log } = of
  using pauses = new PausesUntil(of.poll, signal)
  while (!signal.aborted) {
    const readAt = performance.now()
    let events: readonly engine.OutboxEvent[]
    try {
      events = await readEvents(of)
    } catch (error) {
      if (signal.aborted) return
      const trouble = unlessHopeless(error)
      log.warn({ consumer, error: trouble }, 'events could not be read; it goes on trying')
      await pauses.failed()
      continue
    }
    if (events.length === 0) {
      await pauses.idle()
      continue
    }
    const batch = new EventBatch(events, { db, consumer, signal, leasedUntil: readAt + lease })
    yield batch
    if (batch.acknowledged) pauses.found()
    else await pauses.failed()
  }
}

function readEvents({ db, consumer, reader, max, lease, signal }: SubscriptionOf) {
  const read = { consumer, max, reader, lease: interval(lease) }
  return engine.readEvents(db, read, { signal })
}
