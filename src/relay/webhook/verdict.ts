import { RetryError } from '../../worker/failure.ts'
import type { Answer } from './post.ts'
import { retryAfter } from './retry-after.ts'

/** What becomes of a delivery: it is done, or its endpoint wants no more. Anything else is thrown. */
export type Verdict = 'delivered' | 'gone'

/** How much of an answer an error tells, in characters. */
const TOLD = 200

/** How long an endpoint that is overloaded asks us to wait, in ms; undefined when it does not. */
export function askedWait({ status, retryAfter: text }: Answer, now: Date): number | undefined {
  const isOverloaded = status === 429 || status === 503
  return isOverloaded && text !== undefined ? retryAfter(text, now) : undefined
}

/**
 * Judges the answer of an endpoint.
 *
 * @param wait how long to wait before the next attempt, in ms; undefined for the backoff of its type
 * @throws RetryError with the wait, or Error without one, when it is to be tried again
 */
export function judge({ status, excerpt }: Answer, wait: number | undefined): Verdict {
  if (status >= 200 && status < 300) return 'delivered'
  if (status === 410) return 'gone'
  const words = excerpt.replace(/\s+/g, ' ').trim().slice(0, TOLD)
  const message = `the endpoint answered ${status}${note(status)}${words === '' ? '' : `: ${words}`}`
  if (wait !== undefined) throw new RetryError(message, wait)
  throw new Error(message)
}

function note(status: number): string {
  return status >= 300 && status < 400 ? ' (redirects are not followed)' : ''
}
