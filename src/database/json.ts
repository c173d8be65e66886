import { FencepostError } from '../errors.ts'

/** A value that goes to the server as json or jsonb. Made by {@link json}. */
export class Json {
  readonly value: unknown

  constructor(value: unknown) {
    this.value = value
  }
}

/** Marks a parameter, or an element of an array parameter, as json: `json({ to: 'ada' })`, `json(null)`. */
export function json(value: unknown): Json {
  return new Json(value)
}

/**
 * The text of a value as jsonb takes it.
 *
 * @param where names the value in errors, as `parameter $2`
 * @throws FencepostError JE003 for what JSON or jsonb cannot hold: undefined, bigint, cycles, NUL
 *   characters, halves of surrogate pairs
 */
export function encodeJson(value: unknown, where: string): string {
  let text: string | undefined
  try {
    text = JSON.stringify(value)
  } catch (cause) {
    throw new FencepostError('JE003', `${where} is not JSON: ${(cause as Error).message}`, {
      detail: `received ${kindOf(value)}`,
      hint: 'JSON holds strings, finite numbers, booleans, null, arrays and objects.',
      cause,
    })
  }
  if (text === undefined) {
    throw new FencepostError('JE003', `${where} is not JSON: ${typeof value}`, {
      detail: `received ${kindOf(value)}`,
      hint: 'Send null for nothing.',
    })
  }
  if (SUSPECT.test(text)) rejectUnstorable(JSON.parse(text), where, '$')
  return text
}

function kindOf(value: unknown): string {
  return Array.isArray(value) ? 'an array' : `a value of the type ${typeof value}`
}

/** NUL or a surrogate, escaped: JSON.stringify escapes surrogates only when they stand alone. */
const SUSPECT = /\\u(?:0000|d[89a-f])/i

function rejectUnstorable(value: unknown, where: string, path: string): void {
  if (typeof value === 'string') {
    rejectUnstorableText(value, `${where} at ${path}`)
  } else if (Array.isArray(value)) {
    for (const [index, each] of value.entries()) rejectUnstorable(each, where, `${path}[${index}]`)
  } else if (value !== null && typeof value === 'object') {
    for (const [key, each] of Object.entries(value)) {
      const inside = /^[a-z_]\w*$/i.test(key) ? `${path}.${key}` : `${path}[${JSON.stringify(key)}]`
      rejectUnstorableText(key, `${where}, the key at ${inside},`)
      rejectUnstorable(each, where, inside)
    }
  }
}

/**
 * PostgreSQL stores neither NUL characters nor halves of surrogate pairs.
 *
 * @throws FencepostError JE003 that says at which character
 */
export function rejectUnstorableText(text: string, where: string): void {
  const nul = text.indexOf('\0')
  const found = nul >= 0 ? nul : text.search(/\p{Surrogate}/u)
  if (found < 0) return
  const what = nul >= 0 ? 'a NUL character (\\u0000)' : 'half of a surrogate pair'
  throw new FencepostError('JE003', `${where} contains ${what} at character ${found + 1}`, {
    detail: JSON.stringify(text.slice(Math.max(0, found - 10), found + 10)),
    hint: 'PostgreSQL cannot store it in text or jsonb: remove it, or send the bytes in base64.',
  })
}
