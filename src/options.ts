import { FencepostError } from './errors.ts'

/** Says what is wrong with a value, as `must be a whole number from 0 to 9`; undefined when nothing is. */
export type Check = (value: unknown) => string | undefined

/**
 * Checks an object of options: each one known, each value acceptable. An option that is undefined
 * counts as left out.
 *
 * @param what whose options they are, for the message
 * @throws FencepostError JE003 that names the first wrong option, and the one that was probably meant
 */
export function checkOptions(
  what: string,
  given: unknown,
  checks: Readonly<Record<string, Check>>,
): void {
  if (given === null || typeof given !== 'object' || Array.isArray(given)) {
    throw new FencepostError('JE003', `${what}: the options must be an object`, {
      detail: `received ${shown(given)}`,
      hint: `Options: ${Object.keys(checks).join(', ')}.`,
    })
  }
  for (const [name, value] of Object.entries(given)) {
    const check = Object.hasOwn(checks, name) ? checks[name] : undefined
    if (check === undefined) throw unknownOption(what, name, Object.keys(checks))
    if (value === undefined) continue
    refuseUnless(check, what, name, value, 'Leave it out for its default.')
  }
}

/**
 * Checks an argument that must be given.
 *
 * @throws FencepostError JE003 that names it
 */
export function checkArgument(what: string, name: string, value: unknown, check: Check): void {
  refuseUnless(check, what, name, value, 'It has no default.')
}

function refuseUnless(
  check: Check,
  what: string,
  name: string,
  value: unknown,
  hint: string,
): void {
  const problem = check(value)
  if (problem === undefined) return
  throw new FencepostError('JE003', `${what}: ${name} ${problem}`, {
    detail: `received ${name} = ${shown(value)}`,
    hint,
  })
}

function unknownOption(what: string, name: string, known: readonly string[]): FencepostError {
  const meant = nearest(name, known)
  return new FencepostError('JE003', `${what}: ${name} is not an option`, {
    detail: `received ${name}`,
    hint: `${meant === undefined ? '' : `Did you mean ${meant}? `}Options: ${known.join(', ')}.`,
  })
}

/** A whole number from `least` to `most`. */
export function wholeNumber(least: number, most = Number.MAX_SAFE_INTEGER): Check {
  return (value) =>
    Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most
      ? undefined
      : most === Number.MAX_SAFE_INTEGER
        ? `must be a whole number of at least ${least}`
        : `must be a whole number from ${least} to ${most}`
}

/** A number from `least` to `most`. */
export function numberFrom(least: number, most: number): Check {
  return (value) =>
    typeof value === 'number' && value >= least && value <= most
      ? undefined
      : `must be a number from ${least} to ${most}`
}

/** A text of 1 to `most` characters. */
export function textUpTo(most: number): Check {
  return (value) =>
    typeof value === 'string' && value.length > 0 && value.length <= most
      ? undefined
      : `must be a text of 1 to ${most} characters`
}

/** True or false. */
export const flag: Check = (value) =>
  typeof value === 'boolean' ? undefined : 'must be true or false'

/** A function. */
export const callable: Check = (value) =>
  typeof value === 'function' ? undefined : 'must be a function'

/** An object that is no array. */
export const plainObject: Check = (value) =>
  value !== null && typeof value === 'object' && !Array.isArray(value)
    ? undefined
    : 'must be an object'

/** For options that another check looks at. */
export const anything: Check = () => undefined

/** The word of a list that someone who wrote `word` probably meant, if there is one. */
export function nearest(word: string, words: readonly string[]): string | undefined {
  const plain = (each: string) => each.toLowerCase().replaceAll(/[_.-]/g, '')
  const [best] = words
    .map((each) => ({ each, far: distance(plain(word), plain(each)) }))
    .filter(
      ({ each, far }) => far <= Math.max(1, Math.floor(Math.max(each.length, word.length) / 3)),
    )
    .sort((a, b) => a.far - b.far)
  return best?.each
}

/** How many letters must be put in, taken out, exchanged or swapped with their neighbour. */
function distance(a: string, b: string): number {
  const rows = Array.from({ length: a.length + 1 }, (_, i) =>
    Array.from({ length: b.length + 1 }, (_, j) => (i === 0 ? j : j === 0 ? i : 0)),
  )
  const at = (i: number, j: number) => rows[i]?.[j] ?? 0
  for (let i = 1; i <= a.length; i++) {
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1]
      let least = Math.min(at(i - 1, j) + 1, at(i, j - 1) + 1, at(i - 1, j - 1) + (same ? 0 : 1))
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      if (swapped) least = Math.min(least, at(i - 2, j - 2) + 1)
      ;(rows[i] as number[])[j] = least
    }
  }
  return at(a.length, b.length)
}

/** A value in a message: short, and never in the way. */
export function shown(value: unknown): string {
  try {
    const text =
      typeof value === 'string' ? JSON.stringify(value) : (JSON.stringify(value) ?? String(value))
    return text.length > 100 ? `${text.slice(0, 100)}…` : text
  } catch {
    return typeof value
  }
}
