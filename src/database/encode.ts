import { FencepostError } from '../errors.ts'
import { encodeJson, Json, rejectUnstorableText } from './json.ts'

// Parameters go to the server as text of unknown type, so that it infers the type as it does for a
// literal. Then nothing depends on what a driver knows about types, and every driver sends the same.

/**
 * A parameter as the server reads it; null and undefined are SQL null.
 *
 * @param where names it in errors, as `parameter $2`
 * @throws FencepostError JE003 for what cannot be sent
 */
export function encode(value: unknown, where: string): string | null {
  switch (typeof value) {
    case 'undefined':
      return null
    case 'string':
      rejectUnstorableText(value, where)
      return value
    case 'number':
    case 'bigint':
    case 'boolean':
      return String(value)
    case 'object':
      return value === null ? null : encodeObject(value, where)
    default:
      throw unsendable(`a ${typeof value}`, where)
  }
}

/** All parameters of a query, named by their place. */
export function encodeAll(params: readonly unknown[]): (string | null)[] {
  return params.map((value, index) => encode(value, `parameter $${index + 1}`))
}

function encodeObject(value: object, where: string): string {
  if (value instanceof Json) return encodeJson(value.value, where)
  if (value instanceof Date) return encodeDate(value, where)
  if (value instanceof Uint8Array) return `\\x${Buffer.from(value).toString('hex')}`
  if (Array.isArray(value)) return encodeArray(value, where)
  throw unsendable(`an object (${value.constructor?.name ?? 'without prototype'})`, where)
}

function encodeDate(value: Date, where: string): string {
  const time = value.getTime()
  if (Number.isNaN(time)) throw unsendable('an invalid date', where)
  if (time === END_OF_TIME) return 'infinity'
  if (time === -END_OF_TIME) return '-infinity'
  const iso = value.toISOString()
  // PostgreSQL has no signed years: +012026-01-01 is 12026-01-01, -000043-03-15 is 0044-03-15 BC.
  if (iso.startsWith('+')) return iso.slice(1)
  if (!iso.startsWith('-')) return iso
  return `${String(1 - value.getUTCFullYear()).padStart(4, '0')}${iso.slice(7)} BC`
}

/** The first and last instants of a Date, in ms from 1970: they stand for `-infinity` and `infinity`. */
export const END_OF_TIME = 8.64e15

/** An array literal: elements that are strings always quoted, so that `null` and `{}` stay text. */
function encodeArray(values: readonly unknown[], where: string): string {
  const parts = values.map((value, index) => {
    const element = `${where}[${index}]`
    if (Array.isArray(value)) return encodeArray(value, element)
    const text = encode(value, element)
    if (text === null) return 'NULL'
    return typeof value === 'number' || typeof value === 'bigint' ? text : quote(text)
  })
  return `{${parts.join(',')}}`
}

function quote(text: string): string {
  return `"${text.replace(/[\\"]/g, '\\$&')}"`
}

function unsendable(what: string, where: string): FencepostError {
  return new FencepostError('JE003', `${where} is ${what}`, {
    hint: 'Parameters are strings, numbers, bigints, booleans, dates, bytes, null, arrays of those, and json(value).',
  })
}
