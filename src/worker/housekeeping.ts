import type { Database } from '../database/database.ts'
import * as engine from '../database/engine.ts'
import { FencepostError } from '../errors.ts'
import { asRefusal } from '../refusal.ts'
import { Bell } from './bell.ts'

/** Calls `maintain()` again and again: of all who do, the database lets one work. */
export class Housekeeping {
  readonly #db: Database
  readonly #every: number
  readonly #tell: (message: string) => void
  readonly #chores = new Bell()
  readonly #closing = new AbortController()
  #trouble: string | undefined
  #running: Promise<void> | undefined

  /**
   * @param every the pause between calls, in ms
   * @param tell hears what fails, once until something else does
   */
  constructor(db: Database, every: number, tell: (message: string) => void) {
    this.#db = db
    this.#every = every
    this.#tell = tell
  }

  start(): void {
    this.#running ??= this.#run()
  }

  /** Stops, also what is under way: whoever calls `maintain()` next does it. */
  async close(): Promise<void> {
    this.#closing.abort()
    this.#chores.ring()
    await this.#running
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #run(): Promise<void> {
    const { signal } = this.#closing
    while (!signal.aborted) {
      await this.#chores.wait(this.#every * (0.75 + Math.random() / 2))
      if (signal.aborted) return
      try {
        const steps = await engine.maintain(this.#db, { timeout: 60_000, signal })
        this.#report(steps.find(({ error }) => error !== null))
      } catch (error) {
        const refusal = asRefusal(error)
        // A server that is down is heard of elsewhere.
        if (!(refusal instanceof FencepostError)) continue
        const { message, detail } = refusal
        this.#report({ step: 'maintain()', error: detail ? `${message}: ${detail}` : message })
      }
    }
  }

  #report(failed: { readonly step: string; readonly error: string | null } | undefined): void {
    const message = failed === undefined ? undefined : `${failed.step}: ${failed.error}`
    if (message !== undefined && message !== this.#trouble) this.#tell(message)
    this.#trouble = message
  }
}
