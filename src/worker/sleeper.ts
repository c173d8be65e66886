import type { Database } from '../database/database.ts'
import * as engine from '../database/engine.ts'
import type { Listener } from '../database/listener.ts'
import type { Logger } from '../telemetry/logger.ts'
import { Bell } from './bell.ts'
import type { Load } from './load.ts'

/** Whom a sleeper looks for work with, and by what it is woken. */
export interface SleeperOptions {
  readonly db: Database
  readonly log: Logger
  readonly types: readonly string[]
  /** How often to look without being woken, in ms. */
  readonly poll: number
  readonly load: Load
  /** Left out where there is none: then it polls. */
  readonly listener: Listener | undefined
  /** Looks for work now; true when there was some. */
  readonly look: () => Promise<boolean>
  /** There may be work. */
  readonly wake: () => void
}

/** A worker as busy as that (jobs in 50 ms) waits a little before it sleeps: enqueuers then need not notify. */
const BUSY = 50
const LINGER = 20
/** The shortest pause between two looks, and the longest while wake-ups are being repaired, in ms. */
const SHORTEST = 10
const REPAIRING = 500

/**
 * An idle worker's sleep. It holds a lock by which enqueuers see that somebody sleeps, and claims once
 * more after that: whoever had not seen the lock is then in flight below the horizon, and each time
 * one of those ends it looks again. So no job is missed, and enqueuers notify nobody while workers are
 * busy. Beneath it polls; where notifications do not arrive, more often.
 */
export class Sleeper {
  readonly #options: SleeperOptions
  readonly #bell = new Bell()
  readonly #begun = new Bell()
  #isIdle = false
  #foundAt = performance.now()
  #closed = false
  #groups: readonly number[] | undefined
  #running: Promise<void> | undefined
  #unlocking: Promise<void> | undefined

  constructor(options: SleeperOptions) {
    this.#options = options
    options.listener?.on('wake', (groups) => {
      if (groups.some((group) => this.#groups?.includes(group) ?? true)) this.#bell.ring()
    })
    options.listener?.on('state', () => this.#bell.ring())
  }

  start(): void {
    this.#running ??= this.#run()
  }

  /** There are free slots and no work, or there no longer are. */
  setIdle(isIdle: boolean): void {
    this.#isIdle = isIdle
    ;(isIdle ? this.#begun : this.#bell).ring()
  }

  /** Work was found. */
  found(): void {
    this.#foundAt = performance.now()
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#bell.ring()
    this.#begun.ring()
    await this.#running
  }

  async #run(): Promise<void> {
    while (!this.#closed) {
      if (!this.#isIdle) {
        await this.#begun.wait(Number.POSITIVE_INFINITY)
        continue
      }
      this.#bell.still()
      try {
        if (this.#options.listener?.state === 'ready') await this.#sleep(this.#options.listener)
        else await this.#nap()
      } catch (error) {
        // The connection failed; the listener's state will tell. Until then: poll.
        this.#options.log.debug({ error }, 'a sleep was broken off')
        await this.#bell.wait(REPAIRING)
      }
      if (this.#closed) return
      // From now on it is idle only when it says so anew.
      this.#isIdle = false
      this.#options.wake()
    }
  }

  /** Sleeps until something happens that a claim should follow. */
  async #sleep({ session }: Listener): Promise<void> {
    const { db, load, types, look } = this.#options
    if (load.perWindow() >= BUSY && (await this.#bell.wait(LINGER))) return
    this.#groups ??= await engine.wakeGroups(db, types)
    const groups = this.#groups
    await this.#unlocking
    await engine.sleepLock(session, groups)
    try {
      const { horizon, pending } = await engine.sleepHorizon(db)
      if (await look()) return
      await this.#wait(horizon, pending)
    } finally {
      // Who wakes need not wait for that; when the session is gone, so is the lock.
      this.#unlocking = engine.sleepUnlock(session, groups).catch(() => {})
    }
  }

  async #wait(horizon: number, pending: number): Promise<void> {
    const { db, types, poll, look } = this.#options
    const began = performance.now()
    let left = pending
    let lookAt = 0
    while (this.#isIdle && !this.#closed) {
      const slept = performance.now() - began
      if (slept >= lookAt) {
        if (lookAt > 0 && (await look())) return
        const due = (await engine.nextDueIn(db, types)) ?? Number.POSITIVE_INFINITY
        lookAt = performance.now() - began + Math.min(spread(poll), Math.max(1, due))
        continue
      }
      const pause = left > 0 ? Math.max(2, slept / 8) : Number.POSITIVE_INFINITY
      if (await this.#bell.wait(Math.min(pause, lookAt - slept))) return
      if (left === 0) continue
      const remaining = await engine.sleepPending(db, horizon)
      if (remaining < left && (await look())) return
      left = remaining
    }
  }

  /** Without wake-ups: pauses that grow with the time without work, up to the poll. */
  async #nap(): Promise<void> {
    const { db, types, poll, listener } = this.#options
    const isRepairing = listener !== undefined && listener.state !== 'off'
    const longest = isRepairing ? Math.min(poll, REPAIRING) : poll
    const idle = performance.now() - this.#foundAt
    const pause = Math.min(longest, Math.max(SHORTEST, idle / 8))
    const due = pause > REPAIRING ? await engine.nextDueIn(db, types) : null
    await this.#bell.wait(Math.min(spread(pause), due ?? pause))
  }
}

/** About so long, so that workers which began together do not go on together. */
function spread(ms: number): number {
  return ms * (0.9 + Math.random() * 0.2)
}
