import { z } from 'zod'

const Line = z.object({
  sku: z.string(),
  quantity: z.int().positive(),
  cents: z.int().positive(),
  grams: z.int().positive(),
})
type Line = z.infer<typeof Line>

/** What a customer orders; `cents` and `grams` are of one piece. */
export const Order = z.object({
  id: z.int(),
  card: z.string(),
  country: z.string().length(2),
  lines: z.array(Line).min(1),
})

export const Parcel = z.object({ no: z.int(), sku: z.string(), quantity: z.int() })

/** The heaviest parcel that the carrier takes. */
export const MAX_GRAMS = 20_000

export function costOf(lines: readonly Line[]): number {
  return lines.reduce((sum, { quantity, cents }) => sum + quantity * cents, 0)
}

/** As many parcels for each line as its weight needs, numbered from 1. */
export function parcelsOf(lines: readonly Line[]): z.infer<typeof Parcel>[] {
  return lines
    .flatMap(({ sku, quantity, grams }) => {
      const most = Math.floor(MAX_GRAMS / grams)
      return Array.from({ length: Math.ceil(quantity / most) }, (_, at) => ({
        sku,
        quantity: Math.min(most, quantity - at * most),
      }))
    })
    .map((parcel, at) => ({ no: at + 1, ...parcel }))
}
