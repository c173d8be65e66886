import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

/** What a worker process of the fault tests is told. */
export interface CrewOptions {
  readonly url: string
  readonly types: readonly string[]
  /** Where the ledger is. */
  readonly directory: string
  /** How many processes. */
  readonly size: number
  /** How many jobs each runs at a time. */
  readonly concurrency: number
  readonly ttl: string
  /** False where a pooler is in between, which passes neither notifications nor prepared statements. */
  readonly listen?: boolean
  readonly prepare?: boolean
  /** The program, beside this file. */
  readonly program?: string
}

/** Where a process kills itself: at a named point of a handler, the n-th time; or `anywhere`, after so many ms. */
export interface Doom {
  readonly point: string
  readonly visits: number
}

/** How long a process may take to start and register, and to end when it is asked to, in ms. */
const PATIENCE = 30_000

/** Worker processes that are killed, and replaced, and must not end in any other way. */
export class Crew implements AsyncDisposable {
  readonly #options: CrewOptions
  readonly #members: Member[] = []
  #progress: (() => void)[] = []
  #done = 0
  /** Ends that nobody asked for, with what the process printed last. */
  readonly crashes: string[] = []

  constructor(options: CrewOptions) {
    this.#options = options
  }

  /** Handlers that have ended so far, in all processes. */
  get done(): number {
    return this.#done
  }

  async start(): Promise<void> {
    const starts = Array.from({ length: this.#options.size }, (_, index) => this.#hire(index))
    await Promise.all(starts)
  }

  /** Waits until this many handlers have ended; rejects when that takes longer than `timeout` ms. */
  async reached(done: number, timeout: number): Promise<void> {
    let isLate = false
    const late = setTimeout(() => {
      isLate = true
      this.#tell()
    }, timeout)
    while (this.#done < done) {
      if (this.crashes.length > 0) throw new Error(this.crashes.join('\n'))
      if (isLate) throw new Error(`${this.#done} of ${done} jobs were done after ${timeout} ms`)
      await new Promise<void>((resolve) => this.#progress.push(resolve))
    }
    clearTimeout(late)
  }

  /** Kills a process and starts its successor, of the same name. */
  async kill(index: number): Promise<void> {
    await this.#members[index]?.end('SIGKILL')
    await this.#hire(index)
  }

  /** Replaces a process by one that kills itself, and waits until it has. */
  async sacrifice(index: number, doom: Doom): Promise<void> {
    await this.#members[index]?.end('SIGKILL')
    await this.#hire(index, doom)
    await this.#members[index]?.death
  }

  /** Stops a process in its tracks, until `resume`. */
  pause(index: number): void {
    this.#members[index]?.child.kill('SIGSTOP')
  }

  resume(index: number): void {
    this.#members[index]?.child.kill('SIGCONT')
  }

  /** Asks all to end, as an operator would. Gives a line for each that did not do so well and in time. */
  async stop(): Promise<string[]> {
    const ends = this.#members.map(async (member, index) => {
      const code = await member.end('SIGTERM')
      return code === 0 ? [] : [`process ${index} ended with ${code}: ${member.output}`]
    })
    return (await Promise.all(ends)).flat().concat(this.crashes)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const member of this.#members) await member.end('SIGKILL')
  }

  async #hire(index: number, doom?: Doom): Promise<void> {
    const { program = 'worker.mjs', size: _, ...told } = this.#options
    const member = new Member(program, { ...told, name: 'crew', slot: index, doom })
    member.isExpected = doom !== undefined
    this.#members[index] = member
    member.child.on('message', ({ done }: { done?: number }) => {
      this.#done += done ?? 0
      this.#tell()
    })
    member.child.on('close', (code, signal) => {
      if (member.isExpected) return
      this.crashes.push(`process ${index} ended by itself (${code ?? signal}): ${member.output}`)
      this.#tell()
    })
    await member.ready
  }

  #tell(): void {
    for (const resolve of this.#progress.splice(0)) resolve()
  }
}

class Member {
  readonly child: ChildProcess
  /** It has registered. */
  readonly ready: Promise<void>
  readonly death: Promise<unknown>
  #output = ''
  /** Its end is no crash. */
  isExpected = false

  constructor(program: string, options: unknown) {
    const file = fileURLToPath(new URL(program, import.meta.url))
    this.child = fork(file, [JSON.stringify(options)], { stdio: ['ignore', 'pipe', 'pipe', 'ipc'] })
    this.death = once(this.child, 'close')
    this.ready = Promise.race([
      once(this.child, 'message', { signal: AbortSignal.timeout(PATIENCE) }),
      this.death,
    ]).then(() => undefined)
    for (const stream of [this.child.stdout, this.child.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => {
        this.#output = (this.#output + text).slice(-4_000)
      })
    }
  }

  /** The last that it printed. */
  get output(): string {
    return this.#output
  }

  /** Its exit code, after this signal; what takes too long is killed, and has none. */
  async end(how: NodeJS.Signals): Promise<number | null> {
    this.isExpected = true
    if (this.child.exitCode === null && this.child.signalCode === null) {
      const late = setTimeout(() => this.child.kill('SIGKILL'), PATIENCE)
      this.child.kill('SIGCONT')
      this.child.kill(how)
      await this.death
      clearTimeout(late)
    }
    return this.child.exitCode
  }
}
