import { Worker as Thread } from 'node:worker_threads'
import type { Database } from '../database/database.ts'
import { LoopWatch } from './loop-watch.ts'
import { type Held, PulseLoop, type PulseNews, type PulseSettings } from './pulse-loop.ts'
import type { PulseOrder, PulseThreadData } from './pulse-thread.ts'

/** What a pulse needs to know. */
export interface PulseOptions extends PulseSettings {
  /** For a thread of its own. Undefined where the application holds the database: then it shares ours. */
  readonly url: string | undefined
  readonly prepare: boolean | undefined
  readonly db: Database
  readonly types: readonly string[]
  /** What the worker holds now. */
  readonly held: () => Held
  readonly tell: (news: PulseNews) => void
  /** The thread died, and another was started. */
  readonly restarted: (error: Error) => void
}

/** Keeps a worker's leases alive while its handlers run, whatever they do to the event loop. */
export interface Pulse {
  readonly watch: LoopWatch
  start(): void
  setIncarnation(incarnation: number | undefined): void
  /** Asks the engine now, not when it is time, what is to be known of what the worker holds. */
  beat(): void
  stop(): Promise<void>
}

/** A pulse on a thread of its own where that is possible, else on this one. */
export function createPulse(options: PulseOptions): Pulse {
  return options.url === undefined ? new LocalPulse(options) : new ThreadPulse(options, options.url)
}

/** How often the thread is told what the worker holds, in ms. */
const TELL_EVERY = 1_000

class ThreadPulse implements Pulse {
  readonly watch: LoopWatch
  readonly #options: PulseOptions
  readonly #url: string
  #thread: Thread | undefined
  #incarnation: number | undefined
  #telling: NodeJS.Timeout | undefined
  #stopping = false

  constructor(options: PulseOptions, url: string) {
    this.#options = options
    this.#url = url
    this.watch = new LoopWatch(options.types)
  }

  start(): void {
    const { ttl, held } = this.#options
    this.watch.start()
    this.#startThread()
    const every = Math.min(TELL_EVERY, ttl / 8)
    this.#telling = setInterval(() => this.#order({ kind: 'held', held: held() }), every)
  }

  setIncarnation(incarnation: number | undefined): void {
    this.#incarnation = incarnation
    this.#order({ kind: 'incarnation', incarnation })
  }

  beat(): void {
    this.#order({ kind: 'held', held: this.#options.held() })
    this.#order({ kind: 'beat' })
  }

  async stop(): Promise<void> {
    this.#stopping = true
    this.watch.stop()
    clearInterval(this.#telling)
    const thread = this.#thread
    if (thread === undefined) return
    const ended = new Promise((resolve) => thread.once('exit', resolve))
    this.#order({ kind: 'stop' })
    const timer = setTimeout(() => void thread.terminate(), STOP_GRACE)
    await ended
    clearTimeout(timer)
  }

  #startThread(): void {
    const { name, ttl, maintain, prepare, types, tell } = this.#options
    const workerData: PulseThreadData = {
      name,
      ttl,
      maintain,
      prepare,
      types,
      url: this.#url,
      watch: this.watch.buffer,
    }
    const thread = new Thread(entry(), { workerData, execArgv: [], name: 'fencepost pulse' })
    this.#thread = thread
    thread.on('message', tell)
    thread.on('error', (error) => {
      if (this.#stopping) return
      this.#options.restarted(error)
      this.#startThread()
    })
    this.#order({ kind: 'incarnation', incarnation: this.#incarnation })
  }

  #order(order: PulseOrder): void {
    this.#thread?.postMessage(order)
  }
}

/** How long the thread may take to end, in ms. */
const STOP_GRACE = 2_000

/** The thread's module: beside this one or, when this runs from source as in our tests, as it was built. */
function entry(): URL {
  const here = import.meta.url
  const path = here.endsWith('.ts') ? '../../dist/worker/pulse-thread.js' : './pulse-thread.js'
  return new URL(path, here)
}

class LocalPulse implements Pulse {
  readonly watch: LoopWatch
  readonly #loop: PulseLoop
  readonly #options: PulseOptions
  #telling: NodeJS.Timeout | undefined

  constructor(options: PulseOptions) {
    this.#options = options
    this.watch = new LoopWatch(options.types)
    this.#loop = new PulseLoop(options.db, options, options.tell)
  }

  start(): void {
    const { held } = this.#options
    this.#telling = setInterval(() => {
      this.#loop.held = held()
    }, TELL_EVERY)
    this.#loop.start()
  }

  setIncarnation(incarnation: number | undefined): void {
    this.#loop.incarnation = incarnation
  }

  beat(): void {
    this.#loop.held = this.#options.held()
    this.#loop.beat()
  }

  async stop(): Promise<void> {
    clearInterval(this.#telling)
    await this.#loop.close()
  }
}
