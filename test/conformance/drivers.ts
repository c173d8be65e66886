import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Tool } from '../support/required.ts'

/** One implementation of the worker protocol, and how a process of it is started. */
export interface Driver {
  readonly name: string
  /** What a machine must have for it. */
  readonly tools: readonly Tool[]
  /** The command line of a worker for these types; `tools` are the commands of what it needs. */
  command(url: string, types: readonly string[], tools: readonly string[]): string[]
}

export const drivers: readonly Driver[] = [
  {
    name: 'TypeScript',
    tools: [],
    command: (url, types) => [
      process.execPath,
      inTree('test/conformance/worker.mjs'),
      url,
      types.join(),
    ],
  },
  {
    name: 'Python',
    tools: ['python'],
    command: (url, types, [python = 'python3']) => [
      python,
      inTree('examples/workers/worker.py'),
      url,
      types.join(),
      'handler:handle',
    ],
  },
  {
    name: 'bash',
    tools: ['bash', 'psql', 'timeout'],
    command: (url, types) => [
      'bash',
      inTree('examples/workers/worker.sh'),
      url,
      types.join(),
      process.execPath,
      inTree('test/conformance/handler.mjs'),
    ],
  },
]

/** A worker process under test. */
export class WorkerProcess implements AsyncDisposable {
  readonly #child: ChildProcess
  readonly #exit: Promise<unknown>
  #output = ''

  /** Starts a command line; `directory` is where its handler keeps the ledger. */
  constructor(command: readonly string[], directory: string) {
    const [program = '', ...args] = command
    this.#child = spawn(program, args, {
      cwd: inTree('test/conformance'),
      env: { ...process.env, CONFORMANCE_DIR: directory, LANG: 'C' },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    this.#exit = once(this.#child, 'exit')
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => {
        this.#output += text
      })
    }
  }

  /** All that it printed. */
  get output(): string {
    return this.#output
  }

  get isRunning(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null
  }

  /** Asks it to end, and gives its exit code. */
  stop(): Promise<number | null> {
    return this.#end('SIGTERM')
  }

  /** Ends it without a warning. */
  async kill(): Promise<void> {
    await this.#end('SIGKILL')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill()
  }

  async #end(how: NodeJS.Signals): Promise<number | null> {
    if (this.isRunning) {
      this.#child.kill(how)
      await this.#exit
    }
    return this.#child.exitCode
  }
}

function inTree(name: string): string {
  return fileURLToPath(new URL(`../../${name}`, import.meta.url))
}
