import { EventEmitter } from 'node:events'
import pg from 'pg'
import type { Address } from './address.ts'
import { Backoff } from './backoff.ts'
import type { QueryOptions } from './database.ts'
import { Deadline } from './deadline.ts'
import { Dial } from './dial.ts'
import { encodeAll } from './encode.ts'
import { ConnectionLostError, translate } from './errors.ts'
import { runOnNodePostgres } from './node-postgres.ts'

interface SessionEvents {
  /** Connected, anew: nothing that an earlier connection held (locks, settings) is held now. */
  ready: []
  /** The connection is gone; another one is being made. */
  lost: [reason: Error]
}

/** How long a session's query may take when nothing is said, in ms. */
const TIMEOUT = 5_000

/** What a connection that stands for long is made of. */
export interface StandingOptions {
  readonly address: Address
  readonly applicationName: string
  /** How often the server is asked whether it is still there, in ms. It has half of that to answer. */
  readonly checkEvery: number
}

/**
 * One connection outside the pool, for what belongs to a session: advisory locks that outlive a statement. It
 * connects again by itself, for as long as it takes, until it is closed. It never rejects unheard.
 */
export class Session extends EventEmitter<SessionEvents> implements AsyncDisposable {
  readonly #options: StandingOptions
  readonly #backoff = new Backoff()
  #client: pg.Client | undefined
  #dial: Dial | undefined
  #attempts = 0
  #epoch = 0
  #check: NodeJS.Timeout | undefined
  #pooled = false
  #closed = false

  constructor(options: StandingOptions) {
    super()
    this.#options = options
  }

  /** True while it is connected. */
  get ready(): boolean {
    return this.#client !== undefined
  }

  /** Counts the connections it has had: what was locked in an earlier epoch is locked no more. */
  get epoch(): number {
    return this.#epoch
  }

  /** True when the backend is not the one that the connection was told of: a pooler is in between. */
  get pooled(): boolean {
    return this.#pooled
  }

  /** Begins to connect. Listen to `ready`. */
  start(): void {
    void this.#connect()
  }

  /**
   * Runs a statement as {@link Queryable.query} does (default timeout 5 s). When its deadline passes the connection
   * is given up, and with it every lock.
   *
   * @throws ConnectionLostError at once while there is no connection
   */
  async query<Row = Record<string, unknown>>(
    text: string,
    params: readonly unknown[] = [],
    { timeout = TIMEOUT, signal }: QueryOptions = {},
  ): Promise<Row[]> {
    const values = encodeAll(params)
    const client = this.#client
    if (client === undefined) {
      throw new ConnectionLostError('the session is not connected', {
        code: 'NOT_CONNECTED',
        outcome: 'not_sent',
      })
    }
    using deadline = new Deadline(timeout, signal)
    try {
      return await new Promise<Row[]>((resolve, reject) => {
        deadline.onExpired = (expiry) => {
          const error = expiry('unknown', 'a session of its own')
          reject(error)
          this.#lose(client, error)
        }
        runOnNodePostgres<Row>(client, text, values).then(resolve, reject)
      })
    } catch (error) {
      const translated = translate(error, 'unknown')
      if (translated instanceof ConnectionLostError) this.#lose(client, translated)
      throw translated
    }
  }

  /** Ends the connection, and with it its locks; it will not connect again. */
  async close(): Promise<void> {
    this.#closed = true
    this.#backoff.stop()
    clearInterval(this.#check)
    const client = this.#client
    this.#client = undefined
    const dial = this.#dial
    if (client === undefined || dial === undefined) return void dial?.destroy()
    const timer = setTimeout(() => dial.destroy(), 1000)
    await client.end().catch(() => {})
    clearTimeout(timer)
    dial.destroy()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #connect(): Promise<void> {
    const { address, checkEvery } = this.#options
    const check = () => void this.query('select 1', [], { timeout: checkEvery / 2 }).catch(() => {})
    while (!this.#closed) {
      const dial = new Dial(address, this.#attempts++)
      const client = new pg.Client(clientConfig(this.#options, () => dial))
      this.#dial = dial
      client.on('error', (error) => this.#lose(client, error))
      client.on('end', () => this.#lose(client, new Error('the server closed the connection')))
      try {
        await client.connect()
        await this.#examine(client)
        if (this.#closed) break
        this.#client = client
        this.#epoch++
        this.#backoff.reset()
        this.#check = setInterval(check, checkEvery)
        this.emit('ready')
        return
      } catch {
        dial.destroy()
        await this.#backoff.wait()
      }
    }
  }

  /** Who is at the other end. On a standby an enqueuer would not see our locks. */
  async #examine(client: pg.Client): Promise<void> {
    const text =
      'select pg_catalog.pg_backend_pid() as pid, pg_catalog.pg_is_in_recovery() as standby'
    const query = { text, query_timeout: TIMEOUT }
    const { rows } = await client.query<{ pid: number; standby: boolean }>(query)
    const { pid, standby } = rows[0] ?? {}
    if (standby) throw new Error('the server is a standby')
    const { processID } = client as unknown as { readonly processID: number | null }
    this.#pooled = pid !== processID
  }

  #lose(client: pg.Client, reason: Error): void {
    if (this.#client !== client) return
    this.#client = undefined
    clearInterval(this.#check)
    this.#dial?.destroy()
    if (this.#closed) return
    this.emit('lost', translate(reason, 'unknown'))
    void this.#connect()
  }
}

/** How node-postgres is told to connect through a {@link Dial}. */
export function clientConfig(
  { address, applicationName }: StandingOptions,
  stream: () => Dial,
): pg.ClientConfig {
  const { application_name = applicationName, options, ...settings } = address.startup
  const rest = Object.entries(settings).map(
    ([key, value]) => `-c ${key}=${value.replace(/[\\ ]/g, '\\$&')}`,
  )
  const all = [options, ...rest].filter((each) => each !== undefined).join(' ')
  return {
    stream,
    ssl: false, // the Dial speaks TLS
    host: 'localhost', // the Dial knows better
    user: address.user,
    password: address.password,
    database: address.database,
    application_name,
    ...(all === '' ? {} : { options: all }),
    ...(Number.isFinite(address.connectTimeout)
      ? { connectionTimeoutMillis: address.connectTimeout }
      : {}),
  }
}
