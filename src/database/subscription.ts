import { EventEmitter } from 'node:events'
import pgListen, { type Subscriber } from 'pg-listen'
import type { Address } from './address.ts'
import { Backoff } from './backoff.ts'
import { Dial } from './dial.ts'
import { clientConfig, type StandingOptions } from './session.ts'

interface SubscriptionEvents {
  /** Listening; what was sent before was not heard. */
  up: []
  /** No longer listening; another connection is being made. */
  down: [reason: Error]
  /** What a notification carried: parsed when it was JSON, else its text. */
  payload: [payload: unknown]
}

/**
 * LISTEN on one channel, on a connection of its own, for as long as it takes. pg-listen connects again after a loss;
 * what it does not mend (a first connection that fails, a LISTEN that is refused) is begun anew here.
 */
export class Subscription extends EventEmitter<SubscriptionEvents> implements AsyncDisposable {
  readonly #options: StandingOptions
  readonly #channel: string
  readonly #backoff = new Backoff()
  #attempts = 0
  #up = false
  #closed = false
  #life: Life | undefined
  #running: Promise<void> | undefined

  constructor(channel: string, options: StandingOptions) {
    super()
    this.#channel = channel
    this.#options = options
  }

  /** True while notifications are heard. */
  get up(): boolean {
    return this.#up
  }

  /** Begins to connect. Listen to `up`. */
  start(): void {
    this.#running ??= this.#run()
  }

  /** Begins anew with another connection, when someone else found that this one hears nothing. */
  restart(): void {
    this.#life?.end()
  }

  /** Ends the connection; it will not connect again. */
  async close(): Promise<void> {
    this.#closed = true
    this.#up = false
    this.#backoff.stop()
    this.#life?.end()
    await this.#running
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #run(): Promise<void> {
    while (!this.#closed) {
      await this.#listen()
      if (!this.#closed) await this.#backoff.wait()
    }
  }

  /** One subscriber's life: resolves when it is of no more use. */
  async #listen(): Promise<void> {
    const { address, checkEvery } = this.#options
    const life = new Life(address, () => this.#attempts++)
    this.#life = life
    const subscriber: Subscriber = pgListen.default(
      {
        ...clientConfig(this.#options, () => life.dial()),
        query_timeout: checkEvery / 2,
      },
      {
        parse,
        paranoidChecking: checkEvery,
        retryTimeout: Number.POSITIVE_INFINITY,
        retryInterval: () => life.orThrow(this.#backoff.next()),
      },
    )
    const report = (reason?: Error) => {
      if (!life.over) this.#report(reason)
    }
    subscriber.notifications.on(this.#channel, (payload) => this.emit('payload', payload))
    subscriber.events.on('error', () => life.end())
    try {
      await subscriber.connect()
      subscriber.events.on('reconnect', () => report(new Error('the connection was lost')))
      await subscriber.listenTo(this.#channel)
      subscriber.events.on('connected', () => report())
      report()
      await life.ended
      this.#report(new Error('LISTEN was given up'))
    } catch (error) {
      this.#report(error as Error)
    } finally {
      await subscriber.close().catch(() => {})
      life.end()
    }
  }

  #report(reason?: Error): void {
    if (this.#closed || this.#up === (reason === undefined)) return
    this.#up = reason === undefined
    if (reason === undefined) {
      this.#backoff.reset()
      this.emit('up')
    } else {
      this.emit('down', reason)
    }
  }
}

/** What one subscriber holds, so that it can be ended from outside: pg-listen itself would try for ever. */
class Life {
  readonly ended: Promise<void>
  over = false
  readonly #address: Address
  readonly #nextAttempt: () => number
  #dial: Dial | undefined
  #resolve: () => void = () => {}

  constructor(address: Address, nextAttempt: () => number) {
    this.#address = address
    this.#nextAttempt = nextAttempt
    this.ended = new Promise((resolve) => {
      this.#resolve = resolve
    })
  }

  /** The next connection: pg-listen has one at a time, so the last one was given up. */
  dial(): Dial {
    this.#dial?.destroy()
    this.#dial = new Dial(this.#address, this.#nextAttempt())
    if (this.over) this.#dial.destroy()
    return this.#dial
  }

  /** Thrown from within pg-listen's loop of attempts, an error is what ends it. */
  orThrow(pause: number): number {
    if (this.over) throw new Error('the subscription was closed')
    return pause
  }

  /** Cuts the connection, whatever state it is in. */
  end(): void {
    this.over = true
    this.#dial?.destroy()
    this.#resolve()
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
