/** The longest that an endpoint may ask us to wait, in ms. */
const LONGEST = 86_400_000

/**
 * The wait that a Retry-After asks for, in ms: it holds seconds, or a date as HTTP writes it. Undefined when it asks
 * for none, is over, or cannot be read.
 */
export function retryAfter(text: string, now: Date): number | undefined {
  const wait = /^\d+$/.test(text) ? Number(text) * 1000 : timeOf(text) - now.getTime()
  return wait > 0 ? Math.min(wait, LONGEST) : undefined
}

/** The time of a date such as `Sun, 06 Nov 1994 08:49:37 GMT`; NaN for others, of which Date.parse takes too many. */
function timeOf(text: string): number {
  const date = new Date(text)
  return date.toUTCString() === text ? date.getTime() : Number.NaN
}
