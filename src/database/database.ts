import { FencepostError } from '../errors.ts'
import { parseAddress } from './address.ts'
import type { Notice } from './connection.ts'
import { DEFAULT_TIMEOUT, Deadline } from './deadline.ts'
import { encodeAll } from './encode.ts'
import { Pool } from './pool.ts'
import { runAlone, Transaction } from './transaction.ts'

export type { Notice } from './connection.ts'
export {
  ConnectionLostError,
  DatabaseError,
  isConnectionError,
  type Outcome,
  QueryAbortedError,
  QueryTimeoutError,
} from './errors.ts'
export { Json, json } from './json.ts'

/** For one query. */
export interface QueryOptions {
  /** How long the caller waits, in ms: for a connection and for the answer together. Default 15,000; Infinity for ever. */
  readonly timeout?: number
  /** Gives the query up when it is aborted. */
  readonly signal?: AbortSignal
}

/** Something that runs SQL. */
export interface Queryable {
  /**
   * Runs one statement (or several, without parameters) and gives the rows of the last one. It is read committed,
   * whatever is the default of the role or the database.
   *
   * Parameters are strings, numbers, bigints, booleans, dates, bytes, null, arrays of those, and `json(value)`;
   * the server infers their types. Of the results int2, int4, int8, oid and floats are numbers (an int8 beyond
   * 2^53 is a bigint), timestamptz a Date, json and jsonb parsed, arrays arrays; all else is a string.
   *
   * It settles within its deadline, whatever happens to the server or the network.
   *
   * @throws DatabaseError when the server refuses (code = SQLSTATE); FencepostError for codes of class JE,
   *   and JE003 for parameters that cannot be sent; ConnectionLostError, QueryTimeoutError and
   *   QueryAbortedError, whose `outcome` says whether the statement may have taken effect
   */
  query<Row = Record<string, unknown>>(
    text: string,
    params?: readonly unknown[],
    options?: QueryOptions,
  ): Promise<Row[]>
}

/** A pool of connections to one database. */
export interface Database extends Queryable, AsyncDisposable {
  /**
   * Runs statements in one transaction (read committed) on one connection: committed when `run` resolves, rolled
   * back when it rejects. A statement that failed inside makes the whole fail, also when `run` caught its error.
   */
  transaction<T>(run: (tx: Queryable) => Promise<T>): Promise<T>
  /** Lets queries under way finish, for at most 5 s, and ends all connections. */
  close(): Promise<void>
}

/** How a database is reached. */
export interface DatabaseOptions {
  /** `postgresql://user:password@host:port/database?sslmode=require`; several hosts with commas between. */
  readonly url: string
  /** The most connections that are open at a time. Default 10. */
  readonly max?: number
  /**
   * Prepare each statement once for each connection. Default true; false behind PgBouncer in transaction mode, which
   * else is found out, at the cost of a transaction.
   */
  readonly prepare?: boolean
  /** How the sessions are called in pg_stat_activity. Default `fencepost`. */
  readonly applicationName?: string
  /** Told each time a connection failed and was thrown away. */
  readonly onRebuild?: (reason: Error) => void
  /** Told what the server says beside its answers. Default: nobody. */
  readonly onNotice?: (notice: Notice) => void
}

/** How long `close()` waits for queries under way, in ms. */
const CLOSE_GRACE = 5_000

/**
 * A database. Nothing is connected before the first query.
 *
 * @throws FencepostError JE003 when the URL cannot be read
 */
export function connect(options: DatabaseOptions): Database {
  return new PooledDatabase(options)
}

class PooledDatabase implements Database {
  readonly #pool: Pool

  constructor(options: DatabaseOptions) {
    const { url, max = 10 } = options
    const address = parseAddress(url)
    if (!(Number.isInteger(max) && max > 0)) {
      throw new FencepostError('JE003', `max is ${max}`, {
        hint: 'It is a whole number, at least 1.',
      })
    }
    this.#pool = new Pool({
      address,
      max,
      preparing: { on: options.prepare ?? address.prepare },
      applicationName: options.applicationName ?? 'fencepost',
      onRebuild: options.onRebuild ?? (() => {}),
      onNotice: options.onNotice ?? (() => {}),
    })
  }

  async query<Row>(
    text: string,
    params: readonly unknown[] = [],
    { timeout = DEFAULT_TIMEOUT, signal }: QueryOptions = {},
  ): Promise<Row[]> {
    const values = encodeAll(params)
    using deadline = new Deadline(timeout, signal)
    const connection = await this.#pool.acquire(deadline)
    try {
      const { rows } = await runAlone<Row>(connection, text, values, deadline)
      if (connection.inTransaction) throw leftOpen()
      return rows
    } catch (error) {
      if (connection.inTransaction) connection.destroy(error as Error)
      throw error
    } finally {
      this.#pool.release(connection)
    }
  }

  async transaction<T>(run: (tx: Queryable) => Promise<T>): Promise<T> {
    const connection = await this.#acquire()
    try {
      return await Transaction.run(connection, run)
    } finally {
      this.#pool.release(connection)
    }
  }

  close(): Promise<void> {
    return this.#pool.close(CLOSE_GRACE)
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #acquire() {
    using deadline = new Deadline(DEFAULT_TIMEOUT)
    return await this.#pool.acquire(deadline)
  }
}

function leftOpen(): FencepostError {
  return new FencepostError('JE003', 'query() was used to begin a transaction and did not end it', {
    hint: 'Each query may run on another connection: use transaction().',
  })
}
