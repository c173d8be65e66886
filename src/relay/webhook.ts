import type { Database } from '../database/database.ts'
import * as engine from '../database/engine.ts'
import { FencepostError } from '../errors.ts'
import { Pauses } from '../outbox/pauses.ts'
import { asRefusal } from '../refusal.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { AttemptReport } from '../worker/report.ts'
import { Worker } from '../worker/worker.ts'
import { deliveryJob } from './webhook/delivery.ts'

/** How webhooks are served. */
export interface WebhookRelayOptions {
  readonly db: Database
  /** The same database, for the connections of its worker. */
  readonly url: string
  readonly log: Logger
  /** How many deliveries run at a time. Default: as many as the webhooks allow together, so that none delays another. */
  readonly concurrency?: number | undefined
  /** Whether endpoints may have private addresses, and no TLS. */
  readonly allowPrivate: boolean
  /** The longest pause between two looks for events, in ms. */
  readonly poll: number
  /** How long deliveries under way may take once it is asked to stop, in ms. */
  readonly stopDeadline: number
  /** Told of each attempt to deliver. */
  readonly onAttempt?: ((report: AttemptReport) => void) | undefined
}

/** The most handlers of a worker. */
const MOST = 10_000

/**
 * Serves webhooks: makes deliveries of events, which is one SQL function and exactly once, and runs the worker that
 * delivers. Retries, dead letters and limits are those of jobs. Several may run beside one another.
 *
 * A worker knows its types when it starts. So when webhooks come or their limits change, another worker takes over,
 * and the old one finishes what it has.
 */
export class WebhookRelay {
  readonly #options: WebhookRelayOptions
  readonly #pauses: Pauses
  readonly #leaving = new Set<Promise<void>>()
  #worker: Worker | undefined
  /** One that is about to take over: it waits for a database that does not answer. */
  #next: Worker | undefined
  #serves = ''
  #failures = 0
  /** True once it is known that the role may have what is to be delivered. */
  #mayDeliver = false
  /** Why it cannot go on, as a delivery found out. */
  #refusal: FencepostError | undefined
  #isStopping = false
  #running: Promise<void> | undefined

  constructor(options: WebhookRelayOptions) {
    this.#options = options
    this.#pauses = new Pauses(options.poll)
  }

  /**
   * Serves until it is stopped, or an operator drains its worker.
   *
   * @throws FencepostError when no repetition can help: the schema does not fit (JE011), the role may not (JE009)
   */
  run(): Promise<void> {
    this.#running ??= this.#run()
    return this.#running
  }

  /** Lets deliveries under way end, for as long as `stopDeadline`. */
  async stop(): Promise<void> {
    this.#isStopping = true
    this.#pauses.end()
    void this.#next?.stop()
    await this.#running?.catch(() => {})
  }

  async #run(): Promise<void> {
    try {
      while (!this.#isStopping) {
        await this.#round()
        if (this.#refusal !== undefined) throw this.#refusal
      }
    } finally {
      if (this.#worker !== undefined) this.#dismiss(this.#worker)
      await Promise.all(this.#leaving)
    }
  }

  async #round(): Promise<void> {
    try {
      this.#mayDeliver ||= await engine.mayDeliver(this.#options.db)
      await this.#serveAll()
      const taken = await engine.relayWebhooks(this.#options.db)
      if (this.#failures > 0) this.#options.log.info({ failures: this.#failures }, 'it goes on')
      this.#failures = 0
      if (taken > 0) this.#pauses.found()
      else await this.#pauses.idle()
    } catch (error) {
      const refusal = asRefusal(error)
      if (refusal instanceof FencepostError && refusal.code !== 'JE001') throw refusal
      this.#failures++
      // 1, 2, 4, 8, … of a row are told
      if ((this.#failures & (this.#failures - 1)) === 0) {
        this.#options.log.warn(
          { error: refusal, failures: this.#failures },
          'webhooks are not served',
        )
      }
      await this.#pauses.failed()
    }
  }

  /** Sees to it that a worker runs for all webhooks there are. */
  async #serveAll(): Promise<void> {
    const { db, url, log, concurrency, allowPrivate, stopDeadline, onAttempt } = this.#options
    const onRefused = (refusal: FencepostError) => {
      this.#refusal ??= refusal
      this.#pauses.end()
    }
    const types = await engine.webhookTypes(db)
    const serves = JSON.stringify(types)
    if (serves === this.#serves || types.length === 0) return
    const allowed = types.reduce((sum, { max_running: most }) => sum + (most ?? MOST), 0)
    const jobs = types.map(({ type }) => deliveryJob(type, { db, allowPrivate, onRefused }))
    const worker = new Worker(
      jobs,
      {
        name: 'webhooks',
        concurrency: concurrency ?? Math.min(allowed, MOST),
        stopDeadline,
        logger: log,
        onAttempt,
      },
      { db, url, prepare: undefined },
    )
    this.#next = worker
    await worker.start()
    this.#next = undefined
    const old = this.#worker
    this.#worker = worker
    this.#serves = serves
    if (old !== undefined) this.#dismiss(old)
    void worker.stopped.then(() => {
      if (this.#worker === worker) void this.stop()
    })
    log.info({ webhooks: types.map(({ type }) => type) }, 'webhooks are served')
  }

  #dismiss(worker: Worker): void {
    const left = worker.stop().finally(() => this.#leaving.delete(left))
    this.#leaving.add(left)
  }
}
