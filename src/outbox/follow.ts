import type { Queryable } from '../database/database.ts'
import type { EventFilter, OutboxEvent } from '../database/engine.ts'
import * as engine from '../database/engine.ts'
import { unlessHopeless } from './hopeless.ts'
import { PausesUntil } from './pauses-until.ts'

/** What is followed, and how. */
export interface FollowOptions {
  /** The place to go on from. */
  readonly after: string
  readonly filter?: EventFilter | undefined
  /** The most events that one look gives. */
  readonly max: number
  /** The longest pause between two looks, in ms. */
  readonly poll: number
  readonly signal: AbortSignal
  /** Told of each look that failed; the next one follows, later each time. */
  readonly onTrouble?: ((error: unknown) => void) | undefined
}

/** What a look at the log gave: events, and the place from which the next one goes on. */
export interface Look {
  readonly events: readonly OutboxEvent[]
  readonly position: string
}

/**
 * The event log from a place on, look after look, until the signal is aborted. A look is made when the caller asks
 * for it: who is slow is given no more than one at a time. Looks without events are given too, since the place moves
 * on over events that the filter holds back.
 *
 * It goes on when the database does again, where it was.
 *
 * @throws FencepostError when no repetition can help, such as JE003 for a place or filter that is none
 */
export async function* follow(db: Queryable, options: FollowOptions): AsyncGenerator<Look, void> {
  const { filter, max, poll, signal, onTrouble } = options
  using pauses = new PausesUntil(poll, signal)
  let after = options.after
  while (!signal.aborted) {
    let look: Look
    try {
      const { events, reached } = await engine.listEvents(db, { after, max, filter }, { signal })
      look = { events, position: reached ?? after }
    } catch (error) {
      if (signal.aborted) return
      onTrouble?.(unlessHopeless(error))
      await pauses.failed()
      continue
    }
    after = look.position
    yield look
    if (look.events.length > 0) pauses.found()
    else await pauses.idle()
  }
}
