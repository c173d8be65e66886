import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'

/** What a program says over IPC: an event, and what belongs to it. */
export interface Saying {
  readonly event: string
}

/** A program of the tests in a process of its own, whose sayings and output a test waits for. */
export class Child<Said extends Saying = Saying> implements AsyncDisposable {
  readonly said: Said[] = []
  stdout = ''
  stderr = ''
  readonly #child: ChildProcess
  readonly #ended: Promise<unknown[]>
  #listeners = new Set<() => void>()

  /** Starts a script, which finds what it is told as JSON in its first argument; `flags` are for node. */
  constructor(script: string, told: unknown, flags: readonly string[] = []) {
    this.#child = fork(script, [JSON.stringify(told)], {
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
      execArgv: [...flags],
    })
    // not `exit`, after which there may be output that nobody has read yet
    this.#ended = once(this.#child, 'close')
    this.#child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.stdout += text
      this.#changed()
    })
    this.#child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.stderr += text
      this.#changed()
    })
    this.#child.on('message', (saying) => {
      this.said.push(saying as Said)
      this.#changed()
    })
  }

  /** How often it said something. */
  count(event: Said['event']): number {
    return this.said.filter((each) => each.event === event).length
  }

  /** Resolves when what it said and wrote makes this true; rejects when it ends before. */
  until(isTrue: () => boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      const look = () => {
        if (!isTrue()) return
        this.#listeners.delete(look)
        resolve()
      }
      this.#listeners.add(look)
      void this.#ended.then(([code, signal]) => {
        if (isTrue()) resolve()
        else reject(new Error(`the process ended (${code ?? signal}): ${this.stderr}`))
      })
      look()
    })
  }

  /** Resolves when it has said this. */
  says(event: Said['event']): Promise<void> {
    return this.until(() => this.count(event) > 0)
  }

  tell(message: string): void {
    this.#child.send(message)
  }

  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal)
  }

  /** How it ended: its exit code, or the signal. */
  async exit(): Promise<number | NodeJS.Signals> {
    const [code, signal] = await this.#ended
    return (code ?? signal) as number | NodeJS.Signals
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill('SIGCONT')
    this.#child.kill('SIGKILL')
    await this.#ended
  }

  #changed(): void {
    for (const look of this.#listeners) look()
  }
}
