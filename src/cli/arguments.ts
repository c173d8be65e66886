import { parseArgs } from 'node:util'
import { milliseconds, writtenDuration } from '../definitions/duration.ts'
import { suggestion } from '../suggest.ts'

/** An option of a command. */
export interface OptionSpec {
  /** How its value is called in the help, as `<n>`; without it the option takes none. */
  readonly value?: string
  readonly short?: string
  readonly help: string
}

/** What a command line says. */
export interface Arguments {
  readonly positionals: readonly string[]
  /** Values by option, in the order given; the empty text for an option that takes none. */
  readonly options: ReadonlyMap<string, readonly string[]>
}

/** The command line is wrong: exit code 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
  readonly hint: string | undefined

  constructor(message: string, hint?: string) {
    super(message)
    this.hint = hint
  }
}

/** Options that every command has. */
export const commonOptions: Readonly<Record<string, OptionSpec>> = {
  url: { value: '<url>', help: 'The database. Default: DATABASE_URL, then that of fencepost dev.' },
  json: { help: 'Write JSON.' },
  help: { short: 'h', help: 'Say how the command is used.' },
}

/**
 * Takes a command line apart.
 *
 * @throws UsageError for an option that is unknown, lacks its value or has one that it does not take
 */
export function parseArguments(
  args: readonly string[],
  options: Readonly<Record<string, OptionSpec>>,
): Arguments {
  const { tokens } = parseArgs({
    args: [...args],
    options: Object.fromEntries(
      Object.entries(options).map(([name, { value, short }]) => [
        name,
        { type: value === undefined ? 'boolean' : 'string', ...(short ? { short } : {}) },
      ]),
    ),
    strict: false,
    tokens: true,
  })
  const positionals: string[] = []
  const found = new Map<string, string[]>()
  for (const token of tokens) {
    if (token.kind === 'positional') positionals.push(token.value)
    if (token.kind !== 'option') continue
    const spec = Object.hasOwn(options, token.name) ? options[token.name] : undefined
    if (spec === undefined) {
      const known = Object.keys(options).map((name) => `--${name}`)
      throw new UsageError(`unknown option ${token.rawName}`, suggestion(token.rawName, known))
    }
    if (spec.value === undefined && token.inlineValue) {
      throw new UsageError(`${token.rawName} takes no value`)
    }
    if (spec.value !== undefined && token.value === undefined) {
      throw new UsageError(`${token.rawName} needs a value: ${token.rawName} ${spec.value}`)
    }
    found.set(token.name, [...(found.get(token.name) ?? []), token.value ?? ''])
  }
  return { positionals, options: found }
}

/**
 * The whole number in an argument.
 *
 * @param what how it is called in messages
 * @throws UsageError
 */
export function wholeNumber(what: string, text: string): number {
  const value = Number(text)
  if (/^-?\d+$/.test(text) && Number.isSafeInteger(value)) return value
  throw new UsageError(`${what} must be a whole number`, `received ${JSON.stringify(text)}`)
}

/**
 * The milliseconds of a duration in an argument, of at least `least` and at most `most`.
 *
 * @param what how it is called in messages
 * @throws UsageError
 */
export function duration(what: string, text: string, least = 0, most?: number): number {
  const problem = writtenDuration(least, most)(text)
  if (problem === undefined) return milliseconds(text)
  throw new UsageError(
    `${what} ${problem}`,
    `received ${JSON.stringify(text)}; units are ms, s, m, h, d and w`,
  )
}
