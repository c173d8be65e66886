import { jsonText } from '../json-text.ts'
import { duration, type OptionSpec, UsageError, wholeNumber } from './arguments.ts'
import type { Terminal } from './terminal.ts'

/** A command: what it takes and what it does. */
export interface Command {
  /** What follows the name, as `<type> [payload]`. */
  readonly usage?: string
  /** What the help says below the usage. */
  readonly help?: string
  readonly options?: Readonly<Record<string, OptionSpec>>
  /** How many arguments it takes, at least and at most. Default none. */
  readonly takes?: readonly [least: number, most: number]
  /** Does it, and gives the exit code; none is 0. */
  run(invocation: Invocation): Promise<number | undefined>
}

/** One call of a command. */
export class Invocation {
  readonly terminal: Terminal
  readonly positionals: readonly string[]
  /** True when JSON is wanted. */
  readonly json: boolean
  readonly #options: ReadonlyMap<string, readonly string[]>

  constructor(
    terminal: Terminal,
    positionals: readonly string[],
    options: ReadonlyMap<string, readonly string[]>,
  ) {
    this.terminal = terminal
    this.positionals = positionals
    this.json = options.has('json')
    this.#options = options
  }

  /** True when the option was given. */
  has(option: string): boolean {
    return this.#options.has(option)
  }

  /** The value of an option, the last when it was given more than once; undefined when it was not. */
  text(option: string): string | undefined {
    return this.texts(option).at(-1)
  }

  /** All values of an option that may be given more than once. */
  texts(option: string): readonly string[] {
    return this.#options.get(option) ?? []
  }

  /** The words of a list: with commas between them, or the option given again; undefined when it was not given. */
  words(option: string): readonly string[] | undefined {
    const given = this.#options.get(option)
    return given?.flatMap((text) => text.split(',').map((word) => word.trim()))
  }

  /** The value of an option as a whole number. */
  number(option: string): number | undefined {
    const text = this.text(option)
    return text === undefined ? undefined : wholeNumber(`--${option}`, text)
  }

  /** The value of an option as a duration, in ms, of at least `least` and at most `most`. */
  milliseconds(option: string, least = 0, most?: number): number | undefined {
    const text = this.text(option)
    return text === undefined ? undefined : duration(`--${option}`, text, least, most)
  }

  /** The options of these that were given, as a filter: with _ for - in their names. */
  filter(options: Readonly<Record<string, OptionSpec>>): Record<string, string> {
    const given = Object.keys(options).flatMap((option) => {
      const value = this.text(option)
      return value === undefined ? [] : [[option.replaceAll('-', '_'), value] as const]
    })
    return Object.fromEntries(given)
  }

  /** An argument by its place, as a whole number such as a job's id. */
  id(place: number, what: string): number {
    return wholeNumber(what, this.positionals[place] ?? '')
  }

  /** An argument or option that holds JSON; `-` reads it from standard input. */
  async parseJson(what: string, text: string): Promise<unknown> {
    const source = text === '-' ? await this.input() : text
    try {
      return JSON.parse(source)
    } catch (error) {
      throw new UsageError(`${what} is not JSON: ${(error as Error).message}`, JSON_HINT)
    }
  }

  /** All of standard input. */
  async input(): Promise<string> {
    const chunks: Uint8Array[] = []
    for await (const chunk of this.terminal.stdin) chunks.push(Buffer.from(chunk as Uint8Array))
    return Buffer.concat(chunks).toString()
  }

  /** Writes a result: as JSON when that is wanted, else as `show` makes it. */
  answer(value: unknown, show: () => string): void {
    const text = this.json ? jsonText(value, 2) : show()
    this.terminal.write(text === '' ? '' : `${text.replace(/\n$/, '')}\n`)
  }
}

const JSON_HINT = `In a shell it stands in single quotes: '{"to": "ada@example.org"}'. Use - to read it from standard input.`
