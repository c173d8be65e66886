import { z } from 'zod'

/** A diamond as the file describes it, with the kinds of its fields made right. */
const Record = z.object({
  carat: z.coerce.number().positive(),
  cut: z.enum(['Fair', 'Good', 'Very Good', 'Premium', 'Ideal']),
  color: z.string().regex(/^[D-J]$/),
  clarity: z.enum(['I1', 'SI2', 'SI1', 'VS2', 'VS1', 'VVS2', 'VVS1', 'IF']),
  depth: z.coerce.number(),
  price: z.coerce.number().int().positive(),
  x: z.coerce.number(),
  y: z.coerce.number(),
  z: z.coerce.number(),
})

/** A diamond as the table holds it. */
export interface Diamond {
  readonly row: number
  readonly carat: number
  readonly cut: string
  readonly color: string
  readonly clarity: string
  readonly price_usd: number
  readonly usd_per_carat: number
  readonly volume_mm3: number
}

/** What a row became: a diamond, or the reason why it is none. */
export type Outcome = { readonly diamond: Diamond } | { readonly reason: string }

/** How far the stated depth may be from the measured one, in percentage points. */
const TOLERANCE = 2

/**
 * Validates a row of the file and makes of it what the table holds. The file states a diamond's depth
 * (its height by its width, in percent) and its measures: a row in which they contradict each other was
 * recorded wrong, and nobody can tell which part of it.
 */
export function diamondOf(row: number, fields: unknown): Outcome {
  const parsed = Record.safeParse(fields)
  if (!parsed.success) {
    const { path, message } = parsed.error.issues[0] ?? { path: [], message: 'unreadable' }
    return { reason: `${path.join('.')}: ${message}` }
  }
  const { carat, cut, color, clarity, depth, price, x, y, z: height } = parsed.data
  const missing = Object.entries({ x, y, z: height }).find(([, size]) => size <= 0)
  if (missing !== undefined)
    return { reason: `${missing[0]}: a diamond has a size, found ${missing[1]} mm` }
  const measured = (100 * height) / ((x + y) / 2)
  if (Math.abs(measured - depth) > TOLERANCE) {
    return {
      reason: `depth: stated as ${depth} %, but ${x} × ${y} × ${height} mm make ${measured.toFixed(1)} %`,
    }
  }
  return {
    diamond: {
      row,
      carat,
      cut,
      color,
      clarity,
      price_usd: price,
      usd_per_carat: Math.round(price / carat),
      volume_mm3: Math.round(x * y * height),
    },
  }
}
