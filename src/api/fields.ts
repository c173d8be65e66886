import { z } from '@hono/zod-openapi'
import { suggestion } from '../suggest.ts'

/** How many rows a list gives when nobody says. */
const DEFAULT_LIMIT = 50
/** The most rows that one answer holds. */
export const MAX_LIMIT = 200

/**
 * An object with these fields and no others. An unknown one is refused with what was probably meant;
 * the message's second line is the hint.
 *
 * @param what how a field is called in messages, as `query option`
 */
export function fields<Shape extends z.ZodRawShape>(what: string, shape: Shape) {
  const known = Object.keys(shape)
  return z.strictObject(shape, {
    error: (issue) => {
      if (issue.code !== 'unrecognized_keys') return undefined
      const [unknown = ''] = issue.keys as string[]
      const hint = known.length === 0 ? `There is no ${what} here.` : suggestion(unknown, known)
      return `unknown ${what} ${JSON.stringify(unknown)}\n${hint}`
    },
  })
}

/** The number of a job or worker in a path. */
export const idParam = z
  .string()
  .regex(/^\d{1,15}$/, 'an id is a whole number such as 42')
  .transform(Number)
  .openapi({ type: 'integer', format: 'int64', example: 42 })

/** The parameter `{id}` of a path. */
export const idParams = z.object({ id: idParam })

/** An SQL interval as text. */
export const interval = z
  .string()
  .openapi({ description: 'An SQL interval.', example: '10 minutes' })

/** A time. The engine reads it, so that every surface takes the same forms. */
export const time = z.string().openapi({ format: 'date-time', example: '2030-01-01T00:00:00Z' })

/** Any JSON. */
export const anyJson = z.unknown().openapi({ description: 'Any JSON.' })

/** How many rows a list gives. */
export const limit = z
  .string()
  .regex(/^\d{1,6}$/, 'limit is a whole number')
  .transform(Number)
  .refine((value) => value >= 1 && value <= MAX_LIMIT, `limit is from 1 to ${MAX_LIMIT}`)
  .default(DEFAULT_LIMIT)
  .openapi({ type: 'integer', minimum: 1, maximum: MAX_LIMIT, default: DEFAULT_LIMIT })

/** `true` or `false` in a query. */
export const flag = z
  .enum(['true', 'false'])
  .transform((value) => value === 'true')
  .openapi({ type: 'boolean' })

/** One value of a named schema or a list of them. */
export function oneOrMany(name: string) {
  const one = { $ref: `#/components/schemas/${name}` }
  return z.unknown().openapi({ oneOf: [one, { type: 'array', items: one }] })
}
