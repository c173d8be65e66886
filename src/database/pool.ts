import { Connection, type ConnectionSettings } from './connection.ts'
import type { Deadline } from './deadline.ts'
import { ConnectionLostError, QueryTimeoutError, TOO_MANY_CONNECTIONS } from './errors.ts'

interface Waiter {
  readonly resolve: (connection: Connection) => void
  readonly reject: (error: Error) => void
}

/** What a pool is made of. */
export interface PoolSettings extends ConnectionSettings {
  readonly max: number
  /** Called for each connection that was thrown away because it failed. */
  readonly onRebuild: (reason: Error) => void
}

/**
 * Up to `max` connections, opened when needed, each lent to one user at a time. A connection that
 * fails is replaced, not repaired; after a missed deadline the idle ones are replaced too, since the
 * network may have swallowed them with it.
 */
export class Pool {
  readonly #settings: PoolSettings
  readonly #idle: Connection[] = []
  readonly #lent = new Set<Connection>()
  readonly #waiting = new Set<Waiter>()
  #opening = 0
  #closing: Promise<void> | undefined
  #emptied: (() => void) | undefined

  constructor(settings: PoolSettings) {
    this.#settings = settings
  }

  /** A connection for one user alone, who gives it back with `release`. */
  acquire(deadline: Deadline): Promise<Connection> {
    if (this.#closing !== undefined) return Promise.reject(closed())
    const connection = this.#idle.pop()
    if (connection !== undefined) return Promise.resolve(this.#lend(connection))
    return new Promise((resolve, reject) => {
      const waiter: Waiter = { resolve, reject }
      deadline.onExpired = (expiry) => {
        this.#waiting.delete(waiter)
        const { max } = this.#settings
        reject(expiry('not_sent', `${this.#lent.size} of ${max} connections are in use`))
      }
      this.#waiting.add(waiter)
      this.#grow()
    })
  }

  release(connection: Connection): void {
    this.#lent.delete(connection)
    if (connection.usable) {
      const old = performance.now() - connection.openedAt > LIFETIME
      if (old || this.#closing !== undefined) void connection.end()
      else this.#offer(connection)
    }
    this.#grow()
    if (this.#lent.size === 0) this.#emptied?.()
  }

  /** Lets users finish, for at most `grace` ms; then ends all connections. */
  close(grace: number): Promise<void> {
    this.#closing ??= this.#close(grace)
    return this.#closing
  }

  async #close(grace: number): Promise<void> {
    for (const { reject } of this.#waiting) reject(closed())
    this.#waiting.clear()
    const ending = this.#idle.splice(0).map((connection) => this.#end(connection))
    if (this.#lent.size > 0) {
      await new Promise<void>((resolve) => {
        this.#emptied = resolve
        setTimeout(resolve, grace).unref()
      })
      for (const connection of this.#lent) connection.destroy(closed())
    }
    await Promise.all(ending)
  }

  #end(connection: Connection): Promise<void> {
    connection.onClosed = undefined
    return connection.end()
  }

  #lend(connection: Connection): Connection {
    this.#lent.add(connection)
    return connection
  }

  #offer(connection: Connection): void {
    const [waiter] = this.#waiting
    if (waiter === undefined) {
      this.#idle.push(connection)
      return
    }
    this.#waiting.delete(waiter)
    waiter.resolve(this.#lend(connection))
  }

  /** Opens as many connections as are wanted and allowed. */
  #grow(): void {
    if (this.#closing !== undefined) return
    const room = this.#settings.max - this.#idle.length - this.#lent.size - this.#opening
    const wanted = this.#waiting.size - this.#opening
    for (let count = Math.min(room, wanted); count > 0; count--) void this.#open()
  }

  async #open(): Promise<void> {
    this.#opening++
    try {
      const connection = await Connection.open(this.#settings)
      this.#opening--
      if (this.#closing !== undefined) return void connection.end()
      connection.onClosed = (reason) => this.#lost(connection, reason)
      this.#offer(connection)
    } catch (error) {
      this.#opening--
      this.#refused(error as Error)
    }
  }

  /** No connection was to be had. */
  #refused(error: Error): void {
    // The server is full, but those we have will do, one after the other.
    const full = error instanceof ConnectionLostError && error.code === TOO_MANY_CONNECTIONS
    if (full && this.#lent.size + this.#idle.length + this.#opening > 0) return
    const [waiter] = this.#waiting
    if (waiter === undefined) return
    this.#waiting.delete(waiter)
    waiter.reject(error)
    this.#grow()
  }

  #lost(connection: Connection, reason: Error): void {
    const at = this.#idle.indexOf(connection)
    if (at >= 0) this.#idle.splice(at, 1)
    if (reason instanceof QueryTimeoutError) {
      for (const idle of this.#idle.splice(0)) void this.#end(idle)
    }
    this.#settings.onRebuild(reason)
    this.#grow()
  }
}

/** How old a connection gets, in ms: so that sessions follow changes of names and poolers. */
const LIFETIME = 30 * 60_000

function closed(): ConnectionLostError {
  return new ConnectionLostError('the database was closed', { code: 'CLOSED', outcome: 'not_sent' })
}
