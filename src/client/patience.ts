import { setTimeout as sleep } from 'node:timers/promises'
import { isConnectionError, type QueryOptions } from '../database/database.ts'
import { isClosed } from '../database/errors.ts'

/** The waits between looks grow from the first to the longest, in ms. */
const FIRST = 20
const GROWTH = 1.5
const LONGEST = 1_000

/** How long somebody waits. */
export interface Patience {
  /** Milliseconds. Default: for ever. */
  readonly timeout?: number | undefined
  /** Ends the waiting. */
  readonly signal?: AbortSignal | undefined
}

/**
 * Looks until there is something to be found: again after 20 ms, then ever less often, at least once a second. A
 * database that does not answer for a while is asked again, so what a look does must bear to be done twice. Undefined
 * when the time was over.
 *
 * @throws what a look throws otherwise; the reason of the signal
 */
export async function patiently<Found>(
  look: (options: QueryOptions) => Promise<Found | undefined>,
  { timeout = Number.POSITIVE_INFINITY, signal }: Patience = {},
): Promise<Found | undefined> {
  const option = signal === undefined ? {} : { signal }
  const deadline = performance.now() + timeout
  for (let wait = FIRST; ; wait = Math.min(wait * GROWTH, LONGEST)) {
    signal?.throwIfAborted()
    const found = await look(option).catch((error) => {
      signal?.throwIfAborted()
      if (isOver(error)) throw error
      return undefined
    })
    if (found !== undefined) return found
    const left = deadline - performance.now()
    if (left <= 0) return undefined
    await sleep(Math.min(wait, left), undefined, option).catch(() => signal?.throwIfAborted())
  }
}

/** True when asking again would not help. */
function isOver(error: unknown): boolean {
  return isClosed(error) || !isConnectionError(error)
}
