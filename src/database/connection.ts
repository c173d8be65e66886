import type net from 'node:net'
import postgres from 'postgres'
import { type Address, type Host, nameOf, type SessionTarget } from './address.ts'
import { type Answer, readAnswer } from './answer.ts'
import { type Backend, cancelStatement } from './cancel.ts'
import type { Deadline } from './deadline.ts'
import { decoders } from './decode.ts'
import {
  ConnectionLostError,
  type Outcome,
  pooledInBetween,
  spoilsConnection,
  translate,
} from './errors.ts'
import { openSocket } from './socket.ts'
import { TransactionState } from './transaction-state.ts'

/** A message of the server that is no error: `raise notice`. */
export interface Notice {
  readonly severity: string
  readonly code: string
  readonly message: string
  readonly detail?: string
  readonly hint?: string
}

/** What all connections of a pool have in common. */
export interface ConnectionSettings {
  readonly address: Address
  readonly applicationName: string
  /** Whether statements are prepared once for each connection: until it turns out that a pooler is in between. */
  readonly preparing: { on: boolean }
  readonly onNotice: (notice: Notice) => void
}

/**
 * One session of the server. It is a postgres.js instance that has exactly one socket, which is ours:
 * the instance never reconnects (where postgres.js hangs and crashes), and once lost it is thrown
 * away whole. It runs one statement at a time.
 */
export class Connection {
  /** Called once, when it was lost or ended. */
  onClosed: ((reason: Error) => void) | undefined
  readonly openedAt = performance.now()
  /** Resolves when its socket is closed: of one that was given up, not before the server was asked to stop. */
  readonly gone: Promise<void>
  readonly #sql: postgres.Sql
  readonly #socket: net.Socket
  readonly #settings: ConnectionSettings
  readonly #host: Host
  readonly #transaction: TransactionState
  #isReadCommitted = true
  #lost: Error | undefined
  #fail: ((error: Error) => void) | undefined
  #backend: Backend | undefined

  private constructor(settings: ConnectionSettings, host: Host, socket: net.Socket) {
    this.#settings = settings
    this.#host = host
    this.#socket = socket
    this.#transaction = new TransactionState(socket)
    let used = false
    const { address } = settings
    const where = 'path' in host ? { path: host.path } : { host: host.host, port: host.port }
    this.#sql = postgres({
      ...where,
      user: address.user,
      password: address.password,
      database: address.database,
      connection: {
        application_name: settings.applicationName,
        DateStyle: 'ISO, YMD',
        TimeZone: 'UTC',
        ...address.startup,
      },
      // Asked for once, unless the instance wants to reconnect.
      socket: () => {
        if (used) throw this.#closedByServer()
        used = true
        return socket
      },
      types: codecs,
      max: 1,
      ssl: false,
      fetch_types: false,
      no_subscribe: true,
      max_lifetime: null,
      connect_timeout: 0,
      keep_alive: 0,
      onnotice: (notice: unknown) => settings.onNotice(notice as Notice),
      // The types of the driver do not know `socket` and `no_subscribe`.
    } as unknown as postgres.Options<Record<string, postgres.PostgresType>>)
    this.gone = new Promise((resolve) => socket.once('close', () => resolve()))
    socket.once('error', (error) => this.#closed(translate(error, 'unknown')))
    socket.once('close', () => this.#closed(this.#closedByServer()))
  }

  /**
   * Opens a session on the first host of the address that answers and is of the wanted kind.
   *
   * @throws ConnectionLostError, or DatabaseError when the server refuses the user or the database
   */
  static async open(settings: ConnectionSettings): Promise<Connection> {
    const { hosts, target } = settings.address
    let last: unknown
    for (const wanted of target === 'prefer-standby' ? (['standby', 'any'] as const) : [target]) {
      for (const host of hosts) {
        try {
          return await Connection.#openOn(host, settings, wanted)
        } catch (error) {
          last = error
        }
      }
    }
    throw last
  }

  static async #openOn(host: Host, settings: ConnectionSettings, wanted: SessionTarget) {
    const { connectTimeout } = settings.address
    const late = new ConnectionLostError(
      `${nameOf(host)} did not answer within ${connectTimeout} ms`,
      { code: 'CONNECT_TIMEOUT', outcome: 'not_sent' },
    )
    const control = new AbortController()
    const timer = Number.isFinite(connectTimeout)
      ? setTimeout(() => control.abort(late), connectTimeout)
      : undefined
    let connection: Connection | undefined
    try {
      const socket = await openSocket(settings.address, host, control.signal)
      connection = new Connection(settings, host, socket)
      const opened = connection
      control.signal.addEventListener('abort', () => opened.destroy(late), { once: true })
      control.signal.throwIfAborted()
      await connection.#begin(wanted)
      return connection
    } catch (error) {
      const reason = translate(error, 'not_sent')
      connection?.destroy(reason)
      throw reason
    } finally {
      clearTimeout(timer)
    }
  }

  /** True as long as nothing has shown that it is gone. */
  get usable(): boolean {
    return this.#lost === undefined
  }

  /** False when a statement outside of transactions would run in another isolation level than all of ours are made for. */
  get isReadCommitted(): boolean {
    return this.#isReadCommitted
  }

  /** True when a transaction is open on it: nobody else's statements may run there. */
  get inTransaction(): boolean {
    return this.usable && this.#transaction.isOpen
  }

  /** How many transactions it was told to begin. */
  get begun(): number {
    return this.#transaction.begun
  }

  /**
   * Runs one statement, or several without parameters. When the deadline passes, the connection is
   * given up and the server is asked to stop the statement.
   *
   * @param outcome what it means for the statement's effect when the connection is lost
   */
  async run<Row>(
    text: string,
    values: readonly (string | null)[],
    deadline: Deadline | undefined,
    outcome: Outcome = 'unknown',
  ): Promise<Answer<Row>> {
    if (this.#lost !== undefined) throw withOutcome(this.#lost, 'not_sent')
    const { preparing } = this.#settings
    const prepare = preparing.on
    try {
      return await new Promise<Answer<Row>>((resolve, reject) => {
        this.#fail = reject
        if (deadline !== undefined) {
          deadline.onExpired = (expiry) => {
            const error = expiry(outcome, `${nameOf(this.#host)}, ${summary(text)}`)
            reject(error)
            void this.#abandon(error)
          }
        }
        this.#sql
          .unsafe(text, values.map((value) => this.#sql.typed(value, UNKNOWN)) as never[], {
            prepare,
          })
          .then((result) => {
            this.#backend ??= result.state
            resolve(readAnswer<Row>(result))
          }, reject)
      })
    } catch (error) {
      const told = translate(this.#inOurWords(error), outcome)
      const pooled = prepare ? pooledInBetween(told) : undefined
      if (pooled !== undefined) preparing.on = false
      const translated = pooled ?? withOutcome(told, outcome)
      if (spoilsConnection(translated)) this.destroy(translated)
      throw translated
    } finally {
      this.#fail = undefined
      if (deadline !== undefined) deadline.onExpired = undefined
    }
  }

  /** Ends it at once; a statement under way is rejected with the reason. */
  destroy(reason: Error): void {
    this.#closed(reason)
    this.#socket.destroy()
  }

  /** Says goodbye to the server, so that it need not find out; waits at most a second. */
  async end(): Promise<void> {
    this.#lost ??= new ConnectionLostError('the connection was ended', {
      code: 'ENDED',
      outcome: 'not_sent',
    })
    if (this.#socket.destroyed) return
    void this.#sql.end({ timeout: 1 }).catch(() => {})
    const timer = setTimeout(() => this.#socket.destroy(), 1000)
    await this.gone
    clearTimeout(timer)
  }

  /** The first statement: it proves that the session works, and finds out what kind of server this is. */
  async #begin(wanted: SessionTarget): Promise<void> {
    const { rows } = await this.run<{ standby: boolean; read_only: boolean; isolation: string }>(
      `select pg_catalog.pg_is_in_recovery() as standby,
              pg_catalog.current_setting('transaction_read_only') = 'on' as read_only,
              pg_catalog.current_setting('transaction_isolation') as isolation`,
      [],
      undefined,
      'not_sent',
    )
    const { standby = false, read_only = false, isolation } = rows[0] ?? {}
    this.#isReadCommitted = isolation === 'read committed'
    const fits = {
      any: true,
      primary: !standby,
      standby,
      'prefer-standby': true,
      'read-write': !read_only,
      'read-only': read_only,
    }
    if (fits[wanted]) return
    throw new ConnectionLostError(`${nameOf(this.#host)} is not the wanted server (${wanted})`, {
      code: 'WRONG_TARGET',
      outcome: 'not_sent',
      hint: 'target_session_attrs in the URL says which servers will do.',
    })
  }

  /**
   * Gives it up. First the server is asked to stop what it does, so that nothing of it holds locks
   * that the next attempt waits for; the session itself ends with the socket.
   */
  async #abandon(reason: Error): Promise<void> {
    this.#closed(reason)
    const { address } = this.#settings
    if (this.#backend !== undefined) await cancelStatement(address, this.#host, this.#backend)
    this.#socket.destroy()
  }

  #closed(reason: Error): void {
    if (this.#lost !== undefined && this.onClosed === undefined && this.#fail === undefined) return
    this.#lost ??= reason
    const { onClosed } = this
    this.onClosed = undefined
    onClosed?.(reason)
    // The driver's own rejection, which may say more, comes first.
    setImmediate((fail) => fail?.(reason), this.#fail)
  }

  /** Where the driver only says that the connection is gone, we know why. */
  #inOurWords(error: unknown): unknown {
    const { code } = error as { code?: unknown }
    return typeof code === 'string' && code.startsWith('CONNECTION_')
      ? (this.#lost ?? error)
      : error
  }

  #closedByServer(): ConnectionLostError {
    return new ConnectionLostError(`${nameOf(this.#host)} closed the connection`, {
      code: 'ECONNRESET',
      outcome: 'unknown',
    })
  }
}

/** The oid of `unknown`: the server infers the type, the driver passes the text as it is. */
const UNKNOWN = 705

const codecs = Object.fromEntries(
  [...decoders].map(([oid, parse]) => [
    `fencepost_${oid}`,
    { to: oid, from: [oid], serialize: String, parse },
  ]),
)

/** The same loss, told for another statement. */
function withOutcome(error: Error, outcome: Outcome): Error {
  if (!(error instanceof ConnectionLostError) || error.outcome === outcome) return error
  const { code, hint, cause } = error
  return new ConnectionLostError(error.message, { code, outcome, hint, cause: cause ?? error })
}

/** The beginning of a statement, for messages. */
function summary(text: string): string {
  const line = text.replace(/\s+/g, ' ').trim()
  return line.length > 60 ? `${line.slice(0, 57)}...` : line
}
