import { Connection, type ConnectionSettings } from './connection.ts'
import type { Deadline } from './deadline.ts'
import {
  CLOSED,
  ConnectionLostError,
  QueryAbortedError,
  QueryTimeoutError,
  TOO_MANY_CONNECTIONS,
} from './errors.ts'

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
  readonly #ending = new Set<Promise<void>>()
  #opening = 0
  /** Until when the server need not be asked for more connections than we have, as it had none left. */
  #fullUntil = 0
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
      if (old || this.#closing !== undefined) this.#end(connection)
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
    for (const connection of this.#idle.splice(0)) this.#end(connection)
    if (this.#lent.size > 0) {
      await new Promise<void>((resolve) => {
        this.#emptied = resolve
        setTimeout(resolve, grace).unref()
      })
      for (const connection of this.#lent) connection.destroy(closed())
    }
    await Promise.all(this.#ending)
  }

  #end(connection: Connection): void {
    connection.onClosed = undefined
    this.#awaitEnd(connection.end())
  }

  #awaitEnd(end: Promise<void>): void {
    const ending = end.finally(() => this.#ending.delete(ending))
    this.#ending.add(ending)
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
    if (this.#size > 0 && performance.now() < this.#fullUntil) return
    const room = this.#settings.max - this.#size
    const wanted = this.#waiting.size - this.#opening
    for (let count = Math.min(room, wanted); count > 0; count--) void this.#open()
  }

  async #open(): Promise<void> {
    this.#opening++
    try {
      const connection = await Connection.open(this.#settings)
      this.#opening--
      if (this.#closing !== undefined) return this.#end(connection)
      connection.onClosed = (reason) => this.#lost(connection, reason)
      this.#offer(connection)
    } catch (error) {
      this.#opening--
      this.#refused(error as Error)
    }
  }

  /** No connection was to be had: who waited for it is told, and the next one tries. */
  #refused(error: Error): void {
    if (error instanceof ConnectionLostError && error.code === TOO_MANY_CONNECTIONS) {
      this.#fullUntil = performance.now() + FULL_PAUSE
      if (this.#size > 0) return // those we have will do, one after the other
    }
    const [waiter] = this.#waiting
    if (waiter === undefined) return
    this.#waiting.delete(waiter)
    waiter.reject(error)
    this.#grow()
  }

  get #size(): number {
    return this.#idle.length + this.#lent.size + this.#opening
  }

  #lost(connection: Connection, reason: Error): void {
    const at = this.#idle.indexOf(connection)
    if (at >= 0) this.#idle.splice(at, 1)
    this.#awaitEnd(connection.gone)
    if (reason instanceof QueryTimeoutError) {
      for (const idle of this.#idle.splice(0)) this.#end(idle)
    }
    // One that a caller gave up did not fail.
    if (!(reason instanceof QueryAbortedError)) this.#settings.onRebuild(reason)
    this.#grow()
  }
}

/** How old a connection gets, in ms: so that sessions follow changes of names and poolers. */
const LIFETIME = 30 * 60_000

/** How long a pool that has some connections asks a full server for no more, in ms. */
const FULL_PAUSE = 1_000

function closed(): ConnectionLostError {
  return new ConnectionLostError('the database was closed', { code: CLOSED, outcome: 'not_sent' })
}
