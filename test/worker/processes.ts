import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import type { WorkerOptions } from '../../src/index.ts'

/** What a worker process says. */
export interface Saying {
  readonly event: 'ready' | 'started' | 'aborted' | 'blocking'
  readonly jobId?: number
  readonly token?: number
  readonly workerId?: number
  readonly why?: string
  readonly codes?: readonly string[]
}

const script = path.join(import.meta.dirname, 'process.mjs')

/** A worker in a process of its own. */
export class WorkerProcess implements AsyncDisposable {
  readonly said: Saying[] = []
  stdout = ''
  stderr = ''
  readonly #child: ChildProcess
  readonly #exited: Promise<unknown[]>
  #listeners = new Set<() => void>()

  constructor(url: string, options: WorkerOptions, clock = 0) {
    const argument = JSON.stringify({ url, options, clock })
    this.#child = fork(script, [argument], { stdio: ['ignore', 'pipe', 'pipe', 'ipc'] })
    this.#exited = once(this.#child, 'exit')
    this.#child.stdout?.on('data', (chunk) => {
      this.stdout += chunk
      this.#changed()
    })
    this.#child.stderr?.on('data', (chunk) => {
      this.stderr += chunk
      this.#changed()
    })
    this.#child.on('message', (saying) => {
      this.said.push(saying as Saying)
      this.#changed()
    })
  }

  static async start(url: string, options: WorkerOptions, clock = 0): Promise<WorkerProcess> {
    const process = new WorkerProcess(url, options, clock)
    await process.until(() => process.count('ready') === 1)
    return process
  }

  /** How often it said something. */
  count(event: Saying['event']): number {
    return this.said.filter((each) => each.event === event).length
  }

  get workerId(): number {
    return this.said.find(({ event }) => event === 'ready')?.workerId as number
  }

  /** The lines of its log. */
  get lines(): Record<string, unknown>[] {
    return this.stdout
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line))
  }

  /** Resolves when what it said and wrote makes this true; rejects when it exits before. */
  until(isTrue: () => boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      const look = () => {
        if (!isTrue()) return
        this.#listeners.delete(look)
        resolve()
      }
      this.#listeners.add(look)
      void this.#exited.then(([code, signal]) => {
        if (isTrue()) resolve()
        else reject(new Error(`the process ended (${code ?? signal}): ${this.stderr}`))
      })
      look()
    })
  }

  /** Tells held jobs to end well. */
  go(): void {
    this.#child.send('go')
  }

  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal)
  }

  /** How it ended: its exit code, or the signal. */
  async exit(): Promise<number | NodeJS.Signals> {
    const [code, signal] = await this.#exited
    return (code ?? signal) as number | NodeJS.Signals
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill('SIGCONT')
    this.#child.kill('SIGKILL')
    await this.#exited
  }

  #changed(): void {
    for (const look of this.#listeners) look()
  }
}
