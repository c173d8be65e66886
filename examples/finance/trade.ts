import { z } from 'zod'

/** Somebody buys shares at the price of a day. */
export const Order = z.object({
  id: z.int(),
  account: z.string(),
  date: z.iso.date(),
  shares: z.int().positive(),
})

/** An order, and what it costs. */
export const Trade = Order.extend({ cents: z.int() })
