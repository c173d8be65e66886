import type pg from 'pg'
import { FencepostError } from '../errors.ts'
import { shown } from '../options.ts'
import type { Queryable } from './database.ts'
import { decode } from './decode.ts'
import { encodeAll } from './encode.ts'
import { serverErrorOf } from './errors.ts'
import { runOnNodePostgres } from './node-postgres.ts'
import { Transaction } from './transaction.ts'

/** A postgres.js `sql`, as `sql.begin` and `sql.reserve` give it. */
export interface PostgresJsHandle {
  unsafe(text: string, parameters?: never[], options?: never): unknown
  typed(value: never, oid: number): unknown
}

/**
 * Anything that runs `query(text, params)` and gives rows or `{ rows }`: a node-postgres client, or a small adapter
 * around the transaction of another library.
 */
export interface QueryHandle {
  query(text: string, params?: unknown[]): PromiseLike<unknown>
}

/** A transaction, or a connection, that the application holds. */
export type TransactionHandle = PostgresJsHandle | QueryHandle | Queryable

/**
 * Our statements on the application's own connection, so that they commit or vanish with its transaction. Parameters
 * and results are those of {@link Queryable.query} whatever the application taught its driver about types and names.
 *
 * There is no deadline and no abort: the connection belongs to the application.
 *
 * With an adapter that gives no `fields`, int8 columns are what the library makes of them.
 *
 * @throws FencepostError JE003 for what is no transaction
 */
export function adopt(handle: TransactionHandle): Queryable {
  if (handle instanceof Transaction) return handle
  const run = runnerOf(handle)
  return {
    async query<Row>(text: string, params: readonly unknown[] = []): Promise<Row[]> {
      const values = encodeAll(params)
      try {
        return (await run(text, values)) as Row[]
      } catch (error) {
        throw serverErrorOf(error) ?? error
      }
    },
  }
}

type Runner = (text: string, values: (string | null)[]) => Promise<unknown[]>

function runnerOf(handle: TransactionHandle): Runner {
  if (handle === null || (typeof handle !== 'object' && typeof handle !== 'function')) {
    throw noTransaction(handle)
  }
  if ('unsafe' in handle && 'typed' in handle) {
    return (text, values) => runOnPostgresJs(handle, text, values)
  }
  if ('escapeLiteral' in handle) {
    return (text, values) => runOnNodePostgres(handle as unknown as pg.ClientBase, text, values)
  }
  if ('query' in handle && typeof handle.query === 'function') {
    return async (text, values) => rowsOf(await handle.query(text, values))
  }
  throw noTransaction(handle)
}

function noTransaction(received: unknown): FencepostError {
  return new FencepostError('JE003', 'tx is no transaction', {
    detail: `received ${shown(received)}`,
    hint: 'A transaction of postgres.js or node-postgres, or anything with query(text, params). Leave tx out for one of its own.',
  })
}

/** The oid of `unknown`: whatever serializers the handle has, the server gets our text and infers the type. */
const UNKNOWN = 705

interface RawAnswer extends Array<(Uint8Array | null)[]> {
  readonly columns?: readonly { readonly name: string; readonly type: number }[] | null
}

async function runOnPostgresJs(
  handle: PostgresJsHandle,
  text: string,
  values: (string | null)[],
): Promise<unknown[]> {
  const parameters = values.map((value) => handle.typed(value as never, UNKNOWN))
  const pending = handle.unsafe(text, parameters as never[], { prepare: true } as never) as {
    raw(): PromiseLike<RawAnswer>
  }
  const answer = await pending.raw()
  const columns = answer.columns ?? []
  const names = columns.map(({ name }) => snakeCase(name))
  return Array.from(answer, (row) => {
    const entries = columns.map(({ type }, index) => {
      const raw = row[index] ?? null
      return [names[index], raw === null ? null : decode(Buffer.from(raw).toString(), type)]
    })
    return Object.fromEntries(entries)
  })
}

/** Undoes postgres.camel, postgres.pascal and postgres.kebab: all our columns are in snake case. */
function snakeCase(name: string): string {
  return name
    .replace(/[A-Z]/g, (letter, at) => `${at > 0 ? '_' : ''}${letter.toLowerCase()}`)
    .replaceAll('-', '_')
}

interface GenericAnswer {
  readonly rows?: readonly Record<string, unknown>[]
  readonly fields?: readonly { readonly name?: string; readonly dataTypeID?: number }[]
}

function rowsOf(answer: unknown): unknown[] {
  const { rows = [], fields = [] } = (
    Array.isArray(answer) ? { rows: answer } : answer
  ) as GenericAnswer
  const types = new Map(fields.map(({ name, dataTypeID }) => [name, dataTypeID]))
  return rows.map((row) =>
    Object.fromEntries(
      Object.entries(row).map(([name, value]) => [name, settled(value, types.get(name))]),
    ),
  )
}

const INT8 = 20
const INT8_ARRAY = 1016

/** What libraries commonly leave of an int8 (a string, a bigint) as our number. */
function settled(value: unknown, oid: number | undefined): unknown {
  if (typeof value === 'bigint') return decode(String(value), INT8)
  if (typeof value === 'string' && oid === INT8) return decode(value, INT8)
  if (Array.isArray(value) && oid === INT8_ARRAY) return value.map((each) => settled(each, INT8))
  return value
}
