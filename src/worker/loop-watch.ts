// Shared memory between the thread of the handlers, which writes, and the thread of the pulse, which
// reads even while the other does nothing but one handler's work.

/** How often the event loop leaves a sign, and how often somebody looks for it, in ms. */
export const WATCH_EVERY = 250

const TICKS = 0
const STARTING = 1
const RUNNING = 2

/** The side of the handlers: leaves signs of life, and says which types run. */
export class LoopWatch {
  readonly buffer: SharedArrayBuffer
  readonly #cells: Int32Array
  readonly #places: ReadonlyMap<string, number>
  #timer: NodeJS.Timeout | undefined

  constructor(types: readonly string[]) {
    this.buffer = new SharedArrayBuffer((RUNNING + types.length) * Int32Array.BYTES_PER_ELEMENT)
    this.#cells = new Int32Array(this.buffer)
    this.#places = new Map(types.map((type, index) => [type, RUNNING + index]))
  }

  start(): void {
    this.#timer = setInterval(() => this.#add(TICKS, 1), WATCH_EVERY)
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  /** A handler is about to be called. */
  enter(type: string): void {
    const place = this.#places.get(type) as number
    this.#cells[STARTING] = place
    this.#add(place, 1)
  }

  /** The call returned: the handler has ended or awaits something. */
  entered(): void {
    this.#cells[STARTING] = 0
  }

  /** A handler has ended. */
  leave(type: string): void {
    this.#add(this.#places.get(type) as number, -1)
  }

  #add(place: number, count: number): void {
    this.#cells[place] = (this.#cells[place] as number) + count
  }
}

/** How often in a row there must be no sign before the event loop counts as blocked. */
const SILENT = 4

/** The other side: finds out that the event loop is blocked, and by what. */
export class BlockDetector {
  readonly #cells: Int32Array
  readonly #types: readonly string[]
  #last = 0
  #silent = 0
  #since = 0
  #suspects: readonly string[] = []

  constructor(buffer: SharedArrayBuffer, types: readonly string[]) {
    this.#cells = new Int32Array(buffer)
    this.#types = types
  }

  /** To be called each {@link WATCH_EVERY}. Tells when a block was found, and when it is over. */
  look(): BlockNews | undefined {
    const ticks = Atomics.load(this.#cells, TICKS)
    if (ticks === this.#last) {
      if (++this.#silent !== SILENT) return undefined
      this.#suspects = this.#running()
      return { kind: 'blocked', types: this.#suspects, ms: performance.now() - this.#since }
    }
    const wasBlocked = this.#silent >= SILENT
    const ms = performance.now() - this.#since
    this.#last = ticks
    this.#silent = 0
    this.#since = performance.now()
    return wasBlocked ? { kind: 'over', types: this.#suspects, ms } : undefined
  }

  /** The type whose handler is being called, else all that have handlers under way. */
  #running(): string[] {
    const starting = this.#types[Atomics.load(this.#cells, STARTING) - RUNNING]
    if (starting !== undefined) return [starting]
    return this.#types.filter((_, index) => Atomics.load(this.#cells, RUNNING + index) > 0)
  }
}

/** What a look found. */
export interface BlockNews {
  readonly kind: 'blocked' | 'over'
  /** Who may be at fault. */
  readonly types: readonly string[]
  /** For how long, in ms. */
  readonly ms: number
}
