import { hostname } from 'node:os'
import { Backoff } from '../database/backoff.ts'
import type { Database } from '../database/database.ts'
import * as engine from '../database/engine.ts'
import type { JobDefinition } from '../definitions/define-job.ts'
import { interval } from '../definitions/duration.ts'
import { storedSettings } from '../definitions/settings.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { WorkerSettings } from './options.ts'
import { isTransient } from './refusals.ts'

/** What a registration is made of. */
export interface RegistrationOptions {
  readonly db: Database
  readonly log: Logger
  readonly settings: WorkerSettings
  readonly definitions: readonly JobDefinition[]
}

/** Lost so many times in a row, each soon after it registered, a worker has a double. */
const DOUBLES = 2

/** Presents a worker to the engine, as often as the engine loses it. */
export class Registration {
  readonly #options: RegistrationOptions
  readonly #backoff = new Backoff()
  #slot: number
  #registeredAt = 0
  #soonLost = 0
  #closed = false

  constructor(options: RegistrationOptions) {
    this.#options = options
    this.#slot = options.settings.slot ?? nextSlot()
  }

  /** Declares the types and their settings. Waits for a server that does not answer. */
  async declare(): Promise<void> {
    const { db, definitions } = this.#options
    for (const { type, settings } of definitions) {
      await this.#patiently(() => engine.declareType(db, type, storedSettings(settings)))
    }
  }

  /**
   * Registers a new incarnation: its number; undefined when {@link close} was called meanwhile. Waits
   * for a server that does not answer.
   *
   * @throws FencepostError JE003, JE011
   */
  async register(): Promise<number | undefined> {
    const { db, settings, definitions } = this.#options
    this.#avoidDouble()
    const id = await this.#patiently(() =>
      engine.registerWorker(db, {
        name: settings.name,
        hostname: hostname(),
        slot: this.#slot,
        types: definitions.map(({ type }) => type),
        ttl: interval(settings.ttl),
        protocol: engine.PROTOCOL,
        info: {
          language: 'typescript',
          runtime: `node ${process.version}`,
          pid: process.pid,
          concurrency: settings.concurrency,
          ...settings.info,
        },
      }),
    )
    this.#registeredAt = performance.now()
    return id
  }

  close(): void {
    this.#closed = true
    this.#backoff.stop()
  }

  /** Two processes of one name, host and slot would take each other's place for ever. */
  #avoidDouble(): void {
    const { settings, log } = this.#options
    if (this.#registeredAt === 0) return
    const isSoon = performance.now() - this.#registeredAt < settings.ttl
    this.#soonLost = isSoon ? this.#soonLost + 1 : 0
    if (this.#soonLost < DOUBLES) return
    const slot = nextSlot()
    log.warn(
      { worker: settings.name, slot: this.#slot, new_slot: slot },
      'another process registers with this name, host and slot: give each a slot of its own',
    )
    this.#slot = slot
    this.#soonLost = 0
  }

  async #patiently<T>(run: () => Promise<T>): Promise<T | undefined> {
    for (let isFirst = true; !this.#closed; isFirst = false) {
      try {
        const result = await run()
        this.#backoff.reset()
        return result
      } catch (error) {
        if (!isTransient(error)) throw error
        const { log } = this.#options
        if (isFirst) log.warn({ error }, 'the database does not answer; trying again')
        await this.#backoff.wait()
      }
    }
    return undefined
  }
}

let slots = 0

/** A number that no other worker of this host has: the process's own, and how many it has taken. */
function nextSlot(): number {
  return (process.pid + slots++ * 4_194_304) % 2_147_483_648
}
