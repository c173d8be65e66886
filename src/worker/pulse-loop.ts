import { Backoff } from '../database/backoff.ts'
import type { Database } from '../database/database.ts'
import * as engine from '../database/engine.ts'
import { FencepostError } from '../errors.ts'
import { Bell } from './bell.ts'

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
  readonly #chores = new Bell()
  readonly #backoff = new Backoff()
  #incarnation: number | undefined
  #held: Held = { ids: [], tokens: [] }
  /** True while the thread of the handlers does nothing else: then the list of what it holds is old. */
  #blocked = false
  #closed = false
  #trouble: string | undefined
  #running: Promise<unknown> | undefined

  constructor(db: Database, settings: PulseSettings, tell: (news: PulseNews) => void) {
    this.#db = db
    this.#settings = settings
    this.#tell = tell
  }

  start(): void {
    this.#running ??= Promise.all([this.#beat(), this.#maintain()])
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
    this.#chores.ring()
    this.#backoff.stop()
    await this.#running
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

  async #maintain(): Promise<void> {
    const { ttl, maintain } = this.#settings
    if (!maintain) return
    const every = Math.min(1_000, ttl / 6)
    while (!this.#closed) {
      await this.#chores.wait(every * (0.75 + Math.random() / 2))
      if (this.#closed) return
      try {
        const steps = await engine.maintain(this.#db, { timeout: 60_000 })
        this.#report(steps.find(({ error }) => error !== null))
      } catch (error) {
        // A server that is down is heard of elsewhere.
        if (!(error instanceof FencepostError)) continue
        this.#report({ step: 'maintain()', error: error.message })
      }
    }
  }

  /** Tells what fails once, until something else does. */
  #report(failed: { readonly step: string; readonly error: string | null } | undefined): void {
    const message = failed === undefined ? undefined : `${failed.step}: ${failed.error}`
    if (message !== undefined && message !== this.#trouble) this.#tell({ kind: 'trouble', message })
    this.#trouble = message
  }
}
