import type { Logger } from '../telemetry/logger.ts'
import type { Refused } from './sink.ts'

/** How a relay stands. */
export interface RelayHealth {
  /** `retrying` from a failure until a batch is carried; `idle` when there was nothing to read. */
  readonly state: 'starting' | 'carrying' | 'idle' | 'retrying' | 'stopped'
  /** Events that the sink took, and that it refused, since the start. */
  readonly published: number
  readonly parked: number
  /** When a batch was last carried. */
  readonly lastAt: Date | undefined
  /** Failures in a row, and the last of them. */
  readonly failures: number
  readonly lastError: Error | undefined
}

/** How often it says that it goes on, in ms. */
const EVERY = 10_000

/** Counts what a relay does, and tells it: each trouble once it begins, then seldom, and its end. */
export class Report {
  readonly #log: Logger
  #health: RelayHealth = {
    state: 'starting',
    published: 0,
    parked: 0,
    lastAt: undefined,
    failures: 0,
    lastError: undefined,
  }
  #toldAt = Number.NEGATIVE_INFINITY
  #toldOf = 0

  constructor(log: Logger) {
    this.#log = log
  }

  get health(): RelayHealth {
    return this.#health
  }

  /** A batch was read. */
  begun(): void {
    if (this.#health.state !== 'retrying') this.#become({ state: 'carrying' })
  }

  /** A batch is acknowledged. */
  carried(published: number, refused: readonly Refused[]): void {
    for (const { event, reason } of refused) {
      const { id, kind, job_id, run_id } = event
      const fields = { event: id, kind, job: job_id, run: run_id, reason }
      this.#log.error(fields, 'an event was parked: it cannot be published')
    }
    this.#recovered()
    this.#become({
      state: 'carrying',
      published: this.#health.published + published,
      parked: this.#health.parked + refused.length,
      lastAt: new Date(),
    })
    this.#tellSometimes()
  }

  /** There was nothing to read. */
  idle(): void {
    this.#recovered()
    this.#become({ state: 'idle' })
    this.#tellSometimes()
  }

  /** A round failed, and will be repeated. */
  failed(error: unknown): void {
    const failures = this.#health.failures + 1
    const lastError = error instanceof Error ? error : new Error(String(error))
    const isAnother = lastError.message !== this.#health.lastError?.message
    this.#become({ state: 'retrying', failures, lastError })
    // 1, 2, 4, 8, … of a row are told, and those with another reason than the one before
    if ((failures & (failures - 1)) !== 0 && !isAnother) return
    this.#log.warn({ error: lastError, failures }, 'publishing failed; the same events come again')
  }

  stopped(): void {
    this.#become({ state: 'stopped' })
    this.#tell()
  }

  #recovered(): void {
    const { failures } = this.#health
    if (failures > 0) this.#log.info({ failures }, 'publishing goes on')
    this.#become({ failures: 0 })
  }

  #tellSometimes(): void {
    const { published, parked } = this.#health
    if (published + parked === this.#toldOf) return
    if (performance.now() - this.#toldAt > EVERY) this.#tell()
  }

  #tell(): void {
    const { state, published, parked } = this.#health
    this.#toldAt = performance.now()
    this.#toldOf = published + parked
    this.#log.info({ state, published, parked }, `${published} events published`)
  }

  #become(change: Partial<RelayHealth>): void {
    this.#health = { ...this.#health, ...change }
  }
}
