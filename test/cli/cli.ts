import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'
import { runCli } from '../../src/cli/run.ts'
import { styleFor, type Terminal } from '../../src/cli/terminal.ts'

/** What a command line left behind. */
export interface Outcome {
  readonly code: number
  readonly out: string
  readonly err: string
}

/** Surroundings of a command line, beside its words. */
export interface Surroundings {
  readonly env?: Readonly<Record<string, string | undefined>>
  readonly stdin?: string
  /** A terminal of this many columns. Default: none. */
  readonly width?: number
  /** And of this many rows. Default 50. */
  readonly height?: number
  /** Resolves when the command is to end, as by Ctrl-C. Default: never. */
  readonly asked?: Promise<string>
  /** Told of all that is written, as it is written. */
  readonly onWrite?: (text: string) => void
}

/** Runs a command line in this process, with an output that is kept. */
export async function cli(
  args: readonly string[],
  surroundings: Surroundings = {},
): Promise<Outcome> {
  const { env = {}, stdin = '', width, height = 50 } = surroundings
  const { asked = new Promise(() => {}), onWrite } = surroundings
  let out = ''
  let err = ''
  const terminal: Terminal = {
    // No data directory of a developer's own is looked at.
    env: { FENCEPOST_DATA_DIR: '/nonexistent', ...env },
    stdin: Readable.from(stdin === '' ? [] : [Buffer.from(stdin)]),
    interactive: width !== undefined,
    width,
    height: width === undefined ? undefined : height,
    style: styleFor(width !== undefined && !env.NO_COLOR),
    write(text) {
      out += text
      onWrite?.(text)
    },
    note(line) {
      err += `${line}\n`
    },
    untilAsked: () => asked,
  }
  const code = await runCli(args, terminal)
  return { code, out, err }
}

const MAIN = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url))

/** Starts a command line as a process of its own, as a shell does. */
export function spawnCli(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const child = spawn(process.execPath, [MAIN, ...args], {
    env: {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      FENCEPOST_DATA_DIR: '/nonexistent',
      ...env,
    },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  onTestFinished(() => void child.kill('SIGKILL')) // should the test have failed before its end
  let out = ''
  let err = ''
  child.stdout.setEncoding('utf8').on('data', (text) => {
    out += text
  })
  child.stderr.setEncoding('utf8').on('data', (text) => {
    err += text
  })
  const ended = once(child, 'close').then(
    ([code, signal]): Outcome & { signal: string | null } => ({
      code,
      signal,
      out,
      err,
    }),
  )
  return {
    child,
    ended,
    /** Resolves when the output, standard or error, matches. */
    async says(pattern: RegExp): Promise<RegExpExecArray> {
      for (;;) {
        const match = pattern.exec(`${out}\n${err}`)
        if (match !== null) return match
        const more = Promise.race([once(child.stdout, 'data'), once(child.stderr, 'data')])
        const over = ended.then(() => {
          throw new Error(`it ended before it said ${pattern}:\n${out}\n${err}`)
        })
        await Promise.race([more, over])
      }
    },
  }
}
