import { RetryError } from '../../worker/failure.ts'
import type { Answer } from './post.ts'

/** What becomes of a delivery: it is done, or its endpoint wants no more. Anything else is thrown. */
export type Verdict = 'delivered' | 'gone'

/** The longest that an endpoint may ask us to wait, in seconds. */
const LONGEST = 86_400
/** How much of an answer an error tells, in characters. */
const TOLD = 200

/**
 * Judges the answer of an endpoint.
 *
 * @throws RetryError when it said when to come again; Error for what is tried again with backoff
 */
export function judge(answer: Answer, now: Date): Verdict {
  const { status, retryAfter, excerpt } = answer
  if (status >= 200 && status < 300) return 'delivered'
  if (status === 410) return 'gone'
  const words = excerpt.replace(/\s+/g, ' ').trim().slice(0, TOLD)
  const message = `the endpoint answered ${status}${note(status)}${words === '' ? '' : `: ${words}`}`
  const wait = status === 429 || status === 503 ? secondsOf(retryAfter, now) : undefined
  if (wait !== undefined) throw new RetryError(message, wait * 1000)
  throw new Error(message)
}

function note(status: number): string {
  return status >= 300 && status < 400 ? ' (redirects are not followed)' : ''
}

/** The wait in a Retry-After, which is seconds or a date. */
function secondsOf(text: string | undefined, now: Date): number | undefined {
  if (text === undefined) return undefined
  const seconds = /^\d+$/.test(text)
    ? Number(text)
    : Math.ceil((Date.parse(text) - now.getTime()) / 1000)
  return Number.isNaN(seconds) ? undefined : Math.min(Math.max(seconds, 0), LONGEST)
}
