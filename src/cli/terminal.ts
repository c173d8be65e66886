import type { Readable } from 'node:stream'
import { untilAsked } from './signals.ts'

/** Where a command reads and writes, and what it knows of its surroundings. */
export interface Terminal {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly stdin: Readable
  /** True when a person watches the output. */
  readonly interactive: boolean
  /** Columns of the screen; undefined when there is none. */
  readonly width: number | undefined
  /** Rows of the screen; undefined when there is none. */
  readonly height: number | undefined
  readonly style: Style
  /** Results: standard output. */
  write(text: string): void
  /** Everything else: standard error, a line each. */
  note(line: string): void
  /** Resolves when the command is asked to end: by Ctrl-C, or SIGTERM. */
  untilAsked(): Promise<string>
}

/** Marks text for the eye; changes nothing when the output is no terminal or NO_COLOR is set. */
export interface Style {
  bold(text: string): string
  dim(text: string): string
  red(text: string): string
  green(text: string): string
  yellow(text: string): string
  cyan(text: string): string
}

/** The terminal of this process. */
export function processTerminal(): Terminal {
  const { stdin, stdout, stderr, env } = process
  for (const stream of [stdout, stderr]) stream.on('error', endWhenNobodyReads)
  const interactive = stdout.isTTY === true
  return {
    env,
    stdin,
    interactive,
    get width() {
      return interactive && stdout.columns > 0 ? stdout.columns : undefined
    },
    get height() {
      return interactive ? stdout.rows : undefined
    },
    style: styleFor(interactive && !env.NO_COLOR && env.TERM !== 'dumb'),
    write: (text) => void stdout.write(text),
    note: (line) => void stderr.write(`${line}\n`),
    untilAsked,
  }
}

/** `fencepost sql … | head` ends when head has seen enough. */
function endWhenNobodyReads(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EPIPE') throw error
  process.exit(0)
}

/** Escape sequences of ANSI terminals, or nothing. */
export function styleFor(colours: boolean): Style {
  const mark = (on: number, off: number) => (text: string) =>
    colours ? `\u001b[${on}m${text}\u001b[${off}m` : text
  return {
    bold: mark(1, 22),
    dim: mark(2, 22),
    red: mark(31, 39),
    green: mark(32, 39),
    yellow: mark(33, 39),
    cyan: mark(36, 39),
  }
}
