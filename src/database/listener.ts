import { randomUUID } from 'node:crypto'
import { EventEmitter } from 'node:events'
import { parseAddress } from './address.ts'
import { Session } from './session.ts'
import { Subscription } from './subscription.ts'

/**
 * How far wake-ups can be relied on.
 * - `connecting`: not yet known.
 * - `ready`: the sleeping session holds its locks and notifications arrive: shown by one that we sent ourselves.
 * - `degraded`: one of the two connections is gone or being made. Poll fast, and sleep anew when it is ready.
 * - `off`: wake-ups are impossible here, or not wanted. Poll.
 */
export type ListenerState = 'connecting' | 'ready' | 'degraded' | 'off'

/** How a listener is made. */
export interface ListenerOptions {
  readonly url: string
  /** False where LISTEN is impossible; a pooler in transaction mode is found out without it. Default true. */
  readonly listen?: boolean
  /** Default `fencepost`, the channel of the engine. */
  readonly channel?: string
  /** Default `fencepost listener`. */
  readonly applicationName?: string
  /** How often each connection is asked whether it still works, in ms; it has half of that to answer. Default 10,000. */
  readonly checkEvery?: number
}

/** What a worker is told beside its polls. */
interface ListenerEvents {
  /** The state changed, and why. */
  state: [state: ListenerState, reason: string]
  /** There may be work in these wake groups. */
  wake: [groups: readonly number[]]
  /** Jobs of a worker (its id) are to be cancelled. */
  cancel: [worker: number, jobs: readonly number[]]
}

/** How long a notification of our own may take to arrive before LISTEN is held to be broken, in ms. */
const PROBE_TIMEOUT = 2_000
/** How many of them in a row must get lost in a pooler before it is given up. */
const PROBES = 2

/**
 * The wake-ups of a worker: notifications on one connection, and another that holds the locks by which enqueuers see
 * that somebody sleeps. A lock without a listener, or a listener without a lock, would sleep through work: so both
 * are watched, and only together are they `ready`.
 */
export class Listener extends EventEmitter<ListenerEvents> implements AsyncDisposable {
  /** The session for `fencepost.sleep_lock` and its kin. Use it while the state is `ready`. */
  readonly session: Session
  readonly #subscription: Subscription
  readonly #channel: string
  #state: ListenerState
  #unheardProbes = 0
  #probe: { id: string; timer: NodeJS.Timeout } | undefined

  /** @throws FencepostError JE003 when the URL cannot be read */
  constructor(options: ListenerOptions) {
    super()
    const { channel = 'fencepost' } = options
    const standing = {
      address: parseAddress(options.url),
      applicationName: options.applicationName ?? 'fencepost listener',
      checkEvery: options.checkEvery ?? 10_000,
    }
    this.#channel = channel
    this.#state = (options.listen ?? true) ? 'connecting' : 'off'
    this.session = new Session(standing)
    this.#subscription = new Subscription(channel, standing)
    this.session.on('ready', () => this.#sendProbe())
    this.session.on('lost', (reason) => this.#lost('the sleeping session', reason))
    this.#subscription.on('up', () => this.#sendProbe())
    this.#subscription.on('down', (reason) => this.#lost('the listening connection', reason))
    this.#subscription.on('payload', (payload) => this.#heard(payload))
  }

  get state(): ListenerState {
    return this.#state
  }

  /** Begins to connect, and goes on until it is closed. Never throws: the state tells. */
  start(): void {
    if (this.#state === 'off') return
    this.session.start()
    this.#subscription.start()
  }

  /** Ends both connections, and with them the locks. */
  async close(): Promise<void> {
    this.#state = 'off'
    await this.#disconnect()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  /** Once both connections stand, a notification from the one must arrive at the other. */
  #sendProbe(): void {
    if (this.#state === 'off' || !this.session.ready || !this.#subscription.up) return
    this.#endProbe()
    const id = randomUUID()
    const timer = setTimeout(() => void this.#unheard(id), PROBE_TIMEOUT)
    this.#probe = { id, timer }
    // When it fails the session is lost, and says so.
    this.session
      .query('select pg_notify($1, $2)', [this.#channel, JSON.stringify({ probe: id })])
      .catch(() => {})
  }

  async #disconnect(): Promise<void> {
    this.#endProbe()
    await Promise.all([this.session.close(), this.#subscription.close()])
  }

  #endProbe(): void {
    clearTimeout(this.#probe?.timer)
    this.#probe = undefined
  }

  /** Behind a pooler that lends servers by the transaction nothing arrives, now or ever; else begin anew. */
  async #unheard(id: string): Promise<void> {
    if (this.#probe?.id !== id) return
    this.#endProbe()
    this.#unheardProbes++
    if (this.session.pooled && this.#unheardProbes === PROBES) {
      await this.#disconnect()
      this.#become('off', 'a pooler is in between, and notifications do not come through it')
      return
    }
    this.#become('degraded', 'a notification that was sent did not arrive')
    this.#subscription.restart()
  }

  #lost(what: string, reason: Error): void {
    this.#endProbe()
    this.#become('degraded', `${what} is gone: ${reason.message}`)
  }

  #heard(payload: unknown): void {
    if (typeof payload !== 'object' || payload === null) return
    const { probe, wake, worker, cancel } = payload as Record<string, unknown>
    if (probe !== undefined && probe === this.#probe?.id) {
      this.#endProbe()
      this.#unheardProbes = 0
      this.#become('ready', 'notifications arrive')
    }
    if (isNumbers(wake)) this.emit('wake', wake)
    if (typeof worker === 'number' && isNumbers(cancel)) this.emit('cancel', worker, cancel)
  }

  #become(state: ListenerState, reason: string): void {
    if (this.#state === state || this.#state === 'off') return
    this.#state = state
    this.emit('state', state, reason)
  }
}

function isNumbers(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((each) => typeof each === 'number')
}
