/** Levels of a log line, by pino's numbers. */
export const levels = { debug: 20, info: 30, warn: 40, error: 50 } as const

/** A level of a log line. */
export type LevelName = keyof typeof levels

/** Something that takes log lines: fields, then a message. Loggers of pino fit as they are. */
export interface Logger {
  debug(fields: object, message?: string): void
  info(fields: object, message?: string): void
  warn(fields: object, message?: string): void
  error(fields: object, message?: string): void
  /** A logger whose lines all carry these fields. */
  child(fields: Record<string, unknown>): Logger
}

/** Where and what a logger of {@link createLogger} writes. */
export interface LoggerOptions {
  /** The least level that is written. Default `info`. */
  readonly level?: LevelName
  /** Where lines go. Default: standard output. */
  readonly destination?: { write(text: string): unknown }
}

/**
 * A logger that writes one JSON object a line, with `level`, `time` (ms since 1970) and `msg` as pino
 * does. Lines of one turn of the event loop are written together; those of a process that exits are
 * written before it is gone.
 */
export function createLogger({ level = 'info', destination }: LoggerOptions = {}): Logger {
  return new JsonLogger(new Lines(destination ?? process.stdout), levels[level], '')
}

/** A logger that writes nothing. */
export const silentLogger: Logger = {
  debug() {},
  info() {},
  warn() {},
  error() {},
  child: () => silentLogger,
}

class JsonLogger implements Logger {
  readonly #lines: Lines
  readonly #least: number
  /** The fields of all its lines, as they stand inside the braces. */
  readonly #bound: string

  constructor(lines: Lines, least: number, bound: string) {
    this.#lines = lines
    this.#least = least
    this.#bound = bound
  }

  debug(fields: object, message?: string): void {
    this.#write(levels.debug, fields, message)
  }

  info(fields: object, message?: string): void {
    this.#write(levels.info, fields, message)
  }

  warn(fields: object, message?: string): void {
    this.#write(levels.warn, fields, message)
  }

  error(fields: object, message?: string): void {
    this.#write(levels.error, fields, message)
  }

  child(fields: Record<string, unknown>): Logger {
    return new JsonLogger(this.#lines, this.#least, this.#bound + members(fields))
  }

  #write(level: number, fields: object, message?: string): void {
    if (level < this.#least) return
    const text = message === undefined ? '' : `,"msg":${JSON.stringify(message)}`
    this.#lines.add(
      `{"level":${level},"time":${Date.now()}${this.#bound}${members(fields)}${text}}\n`,
    )
  }
}

/** An object's members as they stand inside braces, each preceded by a comma. */
function members(fields: object): string {
  let text = ''
  for (const [name, value] of Object.entries(fields)) {
    const json = jsonOf(value)
    if (json !== undefined) text += `,${JSON.stringify(name)}:${json}`
  }
  return text
}

function jsonOf(value: unknown): string | undefined {
  if (value instanceof Error) return errorJson(value)
  try {
    return JSON.stringify(value)
  } catch {
    return JSON.stringify(String(value))
  }
}

function errorJson({ name, message, stack, ...rest }: Error): string {
  const { code } = rest as { code?: unknown }
  return JSON.stringify({
    type: name,
    message,
    code: typeof code === 'string' ? code : undefined,
    stack,
  })
}

/** Gathers the lines of a turn of the event loop, and writes them at once. */
class Lines {
  readonly #destination: { write(text: string): unknown }
  #waiting = ''

  constructor(destination: { write(text: string): unknown }) {
    this.#destination = destination
  }

  add(line: string): void {
    if (this.#waiting === '') {
      setImmediate(this.#flush)
      process.once('exit', this.#flush)
    }
    this.#waiting += line
  }

  #flush = (): void => {
    process.off('exit', this.#flush)
    if (this.#waiting === '') return
    const text = this.#waiting
    this.#waiting = ''
    this.#destination.write(text)
  }
}
