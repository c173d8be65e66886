import { FencepostError } from '../errors.ts'
import { type Check, shown } from '../options.ts'

/** A length of time: a number of milliseconds, or a text such as `500ms`, `2s`, `1.5h`, `1h 30m`, `7d`. */
export type Duration = number | string

const UNITS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  min: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
}

const PART = /\s*(\d+(?:\.\d+)?)\s*(ms|min|s|m|h|d|w)\s*/y

/** The milliseconds of a duration; undefined when it is none, or negative. */
function parse(value: unknown): number | undefined {
  if (typeof value === 'number') return Number.isFinite(value) && value >= 0 ? value : undefined
  if (typeof value !== 'string' || value === '') return undefined
  let total = 0
  PART.lastIndex = 0
  for (let at = 0; at < value.length; at = PART.lastIndex) {
    const match = PART.exec(value)
    if (match === null) return undefined
    total += Number(match[1]) * (UNITS[match[2] as string] as number)
  }
  return total
}

/** An option that is a duration, of at least `least` ms and at most `most`. */
export function durationFrom(least: number, most = Number.POSITIVE_INFINITY): Check {
  return (value) => {
    const ms = parse(value)
    if (ms === undefined) return EXPECTED
    if (ms < least) return `must be at least ${least} ms`
    if (ms > most) return `must be at most ${most} ms`
    return undefined
  }
}

/** The same for a duration that is written, as in a command line: there each number has its unit. */
export function writtenDuration(least: number, most?: number): Check {
  const check = durationFrom(least, most)
  return (value) =>
    parse(value) === undefined ? 'must be a duration such as 500ms, 2s, 1h 30m' : check(value)
}

const EXPECTED = "must be a number of milliseconds or a text such as '500ms', '2s', '1h 30m'"

/**
 * The milliseconds of a duration.
 *
 * @throws FencepostError JE003
 */
export function milliseconds(duration: Duration): number {
  const ms = parse(duration)
  if (ms === undefined) {
    throw new FencepostError('JE003', `a duration ${EXPECTED}`, {
      detail: `received ${shown(duration)}`,
      hint: 'Units are ms, s, m, h, d and w.',
    })
  }
  return ms
}

/**
 * A duration as PostgreSQL reads an interval.
 *
 * @throws FencepostError JE003
 */
export function interval(duration: Duration): string {
  return `${milliseconds(duration)} milliseconds`
}
