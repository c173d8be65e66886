import type { z } from '@hono/zod-openapi'
import type { Context } from 'hono'
import type { Endpoint } from './endpoint.ts'
import { ProblemError, problem } from './problem.ts'

/** Where a value came from. */
type Part = 'body' | 'query' | 'path' | 'headers'

/**
 * What a schema makes of a part of a request.
 *
 * @param base where the value stands in the body, as a JSON pointer
 * @throws ProblemError JE003 that names the first thing that is wrong
 */
export function check<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  part: Part = 'body',
  base = '#',
): z.output<Schema> {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  const [issue] = result.error.issues
  const path = issue?.path ?? []
  const where = path.length === 0 ? `the ${part}` : path.join('.')
  const [message = '', hint] = (issue?.message ?? '').split('\n')
  throw new ProblemError(
    problem('JE003', `${where}: ${message}`, {
      hint: hint ?? 'The routes and their values are listed at /docs.',
      pointer:
        part === 'body' ? base + path.map((key) => `/${escapeKey(key)}`).join('') : undefined,
    }),
  )
}

/**
 * Reads the body of a request as the route's JSON; undefined when there is none and none is needed.
 *
 * @throws ProblemError for a content type that is not JSON (415), and for what is not JSON
 */
export async function readBody(c: Context, endpoint: Endpoint): Promise<unknown> {
  if (endpoint.body === undefined) return undefined
  const bytes = new Uint8Array(await c.req.arrayBuffer())
  if (bytes.length === 0 && !endpoint.bodyRequired) return check(endpoint.body, {})
  const type = c.req.header('content-type')
  if (bytes.length > 0 && !JSON_TYPE.test(type ?? '')) {
    throw new ProblemError(
      problem('JE003', `the content type ${type === undefined ? 'is missing' : `is ${type}`}`, {
        status: 415,
        hint: 'Send JSON, with the header content-type: application/json.',
      }),
    )
  }
  return check(endpoint.body, readJson(bytes))
}

const JSON_TYPE = /^application\/(?:[\w.-]+\+)?json\s*(?:;|$)/i

/** Reads JSON, and refuses what would not arrive in the database as it was sent. */
function readJson(bytes: Uint8Array): unknown {
  let text: string
  let value: unknown
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
    value = JSON.parse(text)
  } catch (error) {
    const why = error instanceof SyntaxError ? error.message : 'its bytes are not UTF-8'
    throw new ProblemError(
      problem('JE003', `the body is not JSON: ${why}`, {
        hint: 'Names and texts stand in double quotes, and nothing follows the last bracket.',
      }),
    )
  }
  const number = inexactNumber(text)
  if (number !== undefined) {
    throw new ProblemError(
      problem('JE003', `the number ${number.slice(0, 50)} would not arrive as it was sent`, {
        hint: 'Whole numbers are exact up to 9007199254740991: send a larger one as text.',
      }),
    )
  }
  return value
}

/** A text, which is passed over, or a number, which is looked at. */
const TOKEN = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?/g
/** What every number that could be inexact has. */
const SUSPECT = /\d{16}|[eE][-+]?\d{2}/

/** The first number that JavaScript would round to another. */
function inexactNumber(text: string): string | undefined {
  if (!SUSPECT.test(text)) return undefined
  for (const [token] of text.matchAll(TOKEN)) {
    if (token.startsWith('"')) continue
    const value = Number(token)
    const isWhole = /^-?\d+$/.test(token)
    if (!Number.isFinite(value) || (isWhole && BigInt(token) !== BigInt(value))) return token
  }
  return undefined
}

/** As RFC 6901 writes a key in a pointer. */
function escapeKey(key: PropertyKey): string {
  return String(key).replaceAll('~', '~0').replaceAll('/', '~1')
}
