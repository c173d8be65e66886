import { Backoff } from '../database/backoff.ts'
import type { Database } from '../database/database.ts'
import * as engine from '../database/engine.ts'
import { FencepostError } from '../errors.ts'
import { Bell } from './bell.ts'
import { Housekeeping } from './housekeeping.ts'

/** What keeps a worker's leases alive. */
export interface PulseSettings {
  /** The worker's name. */
  readonly name: string
  /** In ms. */
  readonly ttl: number
  /** Whether to call `maintain()` too. */
  readonly maintain: boolean
}

/** The attempts that a worker holds: jobs and their tokens, in the same order. */
export interface Held {
  readonly ids: readonly number[]
  readonly tokens: readonly number[]
}

/** What a heartbeat says of an attempt. */
export interface HeldDirective {
  readonly job: number
  readonly token: number
  readonly directive: 'lost' | 'cancel' | 'timeout'
}

/** What a pulse has to tell. */
export type PulseNews =
  | { readonly kind: 'directives'; readonly directives: readonly HeldDirective[] }
  | { readonly kind: 'lost'; readonly incarnation: number }
  | { readonly kind: 'drain' }
  /** Housekeeping fails. */
  | { readonly kind: 'trouble'; readonly message: string }
  /** Handlers of these types held the event loop up for so long. */
  | { readonly kind: 'blocked'; readonly types: readonly string[]; readonly ms: number }

/** Heartbeats and housekeeping of a worker, on whatever thread they run. */
export class PulseLoop {
  readonly #db: Database
  readonly #settings: PulseSettings
  readonly #tell: (news: PulseNews) => void
  readonly #beats = new Bell()
  readonly #housekeeping: Housekeeping
  readonly #backoff = new Backoff()
  #incarnation: number | undefined
  #held: Held = { ids: [], tokens: [] }
  /** True while the thread of the handlers does nothing else: then the list of what it holds is old. */
  #blocked = false
  #closed = false
  #running: Promise<unknown> | undefined

  constructor(db: Database, settings: PulseSettings, tell: (news: PulseNews) => void) {
    this.#db = db
    this.#settings = settings
    this.#tell = tell
    this.#housekeeping = new Housekeeping(db, Math.min(1_000, settings.ttl / 6), (message) =>
      tell({ kind: 'trouble', message }),
    )
  }

  start(): void {
    this.#running ??= this.#beat()
    if (this.#settings.maintain) this.#housekeeping.start()
  }

  /** The incarnation whose leases are kept; none while there is none. */
  set incarnation(incarnation: number | undefined) {
    this.#incarnation = incarnation
    this.#held = { ids: [], tokens: [] }
  }

  set held(held: Held) {
    this.#held = held
  }

  set blocked(blocked: boolean) {
    this.#blocked = blocked
  }

  /** The next heartbeat is due now. */
  beat(): void {
    this.#beats.ring()
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#beats.ring()
    this.#backoff.stop()
    await Promise.all([this.#running, this.#housekeeping.close()])
  }

  async #beat(): Promise<void> {
    const every = this.#settings.ttl / 4
    while (!this.#closed) {
      const began = performance.now()
      const isHeard = await this.#beatOnce()
      const pause = isHeard ? every : Math.min(every, this.#backoff.next())
      await this.#beats.wait(Math.max(0, began + pause - performance.now()))
    }
  }

  /** Whether the engine heard it. */
  async #beatOnce(): Promise<boolean> {
    const incarnation = this.#incarnation
    if (incarnation === undefined) return true
    const { name, ttl } = this.#settings
    const options = { timeout: Math.max(1_000, ttl / 3) }
    try {
      const held = await this.#list(incarnation)
      const directives = await engine.heartbeat(
        this.#db,
        { worker: name, worker_id: incarnation, job_ids: held.ids, tokens: held.tokens },
        options,
      )
      this.#backoff.reset()
      if (incarnation === this.#incarnation) this.#pass(directives, held)
      return true
    } catch (error) {
      if (!(error instanceof FencepostError) || error.code !== 'JE010') return false
      if (incarnation === this.#incarnation) {
        this.#incarnation = undefined
        this.#tell({ kind: 'lost', incarnation })
      }
      return true
    }
  }

  /** What the worker holds: what it said last or, when it cannot speak, what the engine knows. */
  async #list(incarnation: number): Promise<Held> {
    if (!this.#blocked) return this.#held
    const leases = await engine.leases(this.#db, incarnation)
    return {
      ids: leases.map(({ job_id }) => job_id),
      tokens: leases.map(({ token }) => token),
    }
  }

  #pass(directives: readonly engine.Directive[], held: Held): void {
    const told: HeldDirective[] = []
    for (const { job_id, directive } of directives) {
      if (directive === 'drain') this.#tell({ kind: 'drain' })
      else if (job_id !== null) {
        const token = held.tokens[held.ids.indexOf(job_id)] as number
        told.push({ job: job_id, token, directive })
      }
    }
    if (told.length > 0) this.#tell({ kind: 'directives', directives: told })
  }
}
