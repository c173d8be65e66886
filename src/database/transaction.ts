import type { Answer } from './answer.ts'
import type { Connection } from './connection.ts'
import type { Queryable, QueryOptions } from './database.ts'
import { DEFAULT_TIMEOUT, Deadline } from './deadline.ts'
import { encodeAll } from './encode.ts'
import { ConnectionLostError, DatabaseError, type Outcome } from './errors.ts'

const BEGIN = 'begin isolation level read committed'

/**
 * Runs statements outside of transactions, in read committed also where the role or the database is set to another
 * level: then in a transaction of their own. The session could be set otherwise once, but a pooler lends another one
 * for each transaction.
 */
export async function runAlone<Row>(
  connection: Connection,
  text: string,
  values: readonly (string | null)[],
  deadline: Deadline,
): Promise<Answer<Row>> {
  if (connection.isReadCommitted) return connection.run<Row>(text, values, deadline)
  await connection.run(BEGIN, [], deadline, 'not_sent')
  const { begun } = connection
  let answer: Answer<Row>
  try {
    answer = await connection.run<Row>(text, values, deadline, 'not_sent')
  } catch (error) {
    await rollBack(connection)
    throw error
  }
  // a text that begins one ends it too: what it left open is not for us to commit
  if (connection.begun === begun) await connection.run('commit', [], deadline)
  return answer
}

/** Ends the transaction; where that fails the session, and with it the transaction. */
async function rollBack(connection: Connection): Promise<void> {
  if (!connection.usable) return
  using deadline = new Deadline(DEFAULT_TIMEOUT)
  try {
    await connection.run('rollback', [], deadline, 'not_sent')
  } catch (error) {
    connection.destroy(error as Error)
  }
}

/** The statements of one transaction, one after the other on a connection of its own. */
export class Transaction implements Queryable {
  readonly #connection: Connection
  #tail: Promise<unknown> = Promise.resolve()
  #firstError: Error | undefined
  #over = false

  private constructor(connection: Connection) {
    this.#connection = connection
  }

  /** Begins, runs, commits; rolls back when `run` rejects. */
  static async run<T>(connection: Connection, run: (tx: Queryable) => Promise<T>): Promise<T> {
    const tx = new Transaction(connection)
    await tx.#send(BEGIN, [], {})
    let result: T
    try {
      result = await run(tx)
    } catch (error) {
      await tx.#rollback()
      throw error
    }
    await tx.#commit()
    return result
  }

  async query<Row>(text: string, params: readonly unknown[] = [], options: QueryOptions = {}) {
    if (this.#over) {
      throw new ConnectionLostError('the transaction is over', {
        code: 'TRANSACTION_OVER',
        outcome: 'not_sent',
      })
    }
    const values = encodeAll(params)
    const answer = this.#tail.then(() => this.#send<Row>(text, values, options))
    this.#tail = answer.catch((error) => {
      this.#firstError ??= error
    })
    return (await answer).rows
  }

  async #send<Row>(
    text: string,
    values: (string | null)[],
    { timeout = DEFAULT_TIMEOUT, signal }: QueryOptions,
    // Until COMMIT is sent, nothing that the transaction did can have taken effect.
    outcome: Outcome = 'not_sent',
  ) {
    using deadline = new Deadline(timeout, signal)
    return await this.#connection.run<Row>(text, values, deadline, outcome)
  }

  async #commit(): Promise<void> {
    this.#over = true
    await this.#tail
    const { command } = await this.#send('commit', [], {}, 'unknown')
    if (command === 'COMMIT') return
    // A statement had failed, and its error was not passed on: the server rolled back.
    throw (
      this.#firstError ??
      new DatabaseError({ code: '25P02', message: 'the transaction was rolled back' })
    )
  }

  async #rollback(): Promise<void> {
    this.#over = true
    await this.#tail
    await rollBack(this.#connection)
  }
}
