import type { OutboxEvent } from '../database/engine.ts'
import { jsonText } from '../json-text.ts'
import type { Look } from '../outbox/follow.ts'
import type { Logger } from '../telemetry/logger.ts'
import { within } from '../worker/within.ts'

/** How a stream of events is written. */
export interface EventStreamOptions {
  /** Where the stream begins. */
  readonly position: string
  /** Ends with `ending`. */
  readonly looks: AsyncGenerator<Look, void>
  /** Ends the looks. */
  readonly ending: AbortController
  /** How often it says that it is alive when there is nothing else, in ms. */
  readonly heartbeat: number
  readonly log: Logger
}

/** How soon a client that lost the stream should come back, in ms. */
const RETRY = 2_000

/**
 * Server-sent events from looks at the log. A look is made when the client has taken what came before: one that is slow
 * holds the events of one look in memory, and asks nothing of the database meanwhile.
 */
export function eventStream(options: EventStreamOptions): ReadableStream<Uint8Array> {
  const { ending } = options
  const parts = written(options)
  const encoder = new TextEncoder()
  return new ReadableStream(
    {
      async pull(controller) {
        const { done, value } = await parts.next()
        if (done) controller.close()
        else controller.enqueue(encoder.encode(value))
      },
      async cancel() {
        ending.abort()
        await parts.return()
      },
    },
    { highWaterMark: 0 },
  )
}

/**
 * The parts of the stream. Each names the place behind it, also where nothing is told of what stands there. That it is
 * alive is said on time, also while a look takes long since the database is away: who listens, and proxies in between,
 * would take silence for a lost connection.
 */
async function* written({
  position,
  looks,
  heartbeat,
  log,
}: EventStreamOptions): AsyncGenerator<string, void> {
  let reached = position
  try {
    yield `retry: ${RETRY}\nid: ${reached}\n\n`
    let toldAt = performance.now()
    let look = looks.next()
    for (;;) {
      if (!(await within(look, heartbeat - (performance.now() - toldAt)))) {
        yield `: alive\nid: ${reached}\n\n`
        toldAt = performance.now()
        continue
      }
      const { done, value } = await look
      if (done) return
      reached = value.position
      if (value.events.length > 0) {
        yield value.events.map(message).join('')
        toldAt = performance.now()
      }
      look = looks.next()
    }
  } catch (error) {
    log.error({ err: error }, 'a stream of events ended')
  } finally {
    await looks.return()
  }
}

/** JSON has no line breaks: it is one line of data. */
function message(event: OutboxEvent): string {
  return `id: ${event.position}\ndata: ${jsonText(event)}\n\n`
}
