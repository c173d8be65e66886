import { FencepostError } from '../errors.ts'

/**
 * Where a list goes on, as callers see it: opaque, so that what it is made of may change.
 *
 * @param key the key of the last row that was given
 */
export function encodeCursor(key: unknown): string {
  return Buffer.from(JSON.stringify([VERSION, key])).toString('base64url')
}

/**
 * The key in a cursor of ours.
 *
 * @throws FencepostError JE003 when it is not one
 */
export function decodeCursor<Key>(cursor: string, isKey: (value: unknown) => value is Key): Key {
  const parts = parse(cursor)
  if (Array.isArray(parts) && parts[0] === VERSION && isKey(parts[1])) return parts[1]
  throw new FencepostError('JE003', 'the cursor is not one that this list gave', {
    detail: `received after = ${JSON.stringify(cursor.slice(0, 100))}`,
    hint: 'Send next_cursor of the page before, with the same filters, or leave it out.',
  })
}

/** A key that is the id of a row. */
export function isId(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) > 0
}

/**
 * A page of a list: `limit` rows were asked for, and one more to see whether the list goes on.
 */
export function page<Row>(rows: readonly Row[], limit: number, keyOf: (row: Row) => unknown) {
  const items = rows.slice(0, limit)
  const last = items.at(-1)
  const goesOn = rows.length > limit && last !== undefined
  return { items, next_cursor: goesOn ? encodeCursor(keyOf(last)) : null }
}

/**
 * A page of a list that looks at a bounded number of rows: it may not be full and still go on, where
 * its last row says that the look was cut short.
 */
export function boundedPage<Row extends { readonly id: number; readonly cut: boolean }>(
  rows: readonly Row[],
  limit: number,
) {
  const items = rows.filter(({ cut }) => !cut).map(({ cut: _, ...row }) => row)
  const last = rows.at(-1)
  const goesOn = last !== undefined && (last.cut || items.length === limit)
  return { items, next_cursor: goesOn ? encodeCursor(last.id) : null }
}

const VERSION = 1

function parse(cursor: string): unknown {
  try {
    return JSON.parse(Buffer.from(cursor, 'base64url').toString())
  } catch {
    return undefined
  }
}
