// What is done for an order, and what undoes it. Each handler writes through the transaction that
// completes its job, so that nothing is reserved, charged or refunded twice.

import { defineJob, PermanentError } from 'fencepost'
import { z } from 'zod'
import { completing, type Transaction } from '../database.ts'
import { costOf, MAX_GRAMS, Order, Parcel, parcelsOf } from './order.ts'

/** What an undoing gets: the payload of the job that it undoes, and what that returned. */
const undoing = <Input extends z.ZodType>(input: Input) => z.object({ input })

/** Where the carrier goes. */
const SERVED = ['AT', 'CH', 'DE', 'FR', 'IT', 'NL']

export const validate = defineJob({
  type: 'order.validate',
  payload: Order,
  run: ({ lines }) => {
    const heavy = lines.find(({ grams }) => grams > MAX_GRAMS)
    if (heavy !== undefined) throw new PermanentError(`${heavy.sku} is too heavy for a parcel`)
    return { cents: costOf(lines), parcels: parcelsOf(lines) }
  },
})

export const reserve = defineJob({
  type: 'order.reserve',
  payload: Order,
  run: ({ id, lines }, ctx) =>
    completing(ctx, async (tx) => {
      for (const { sku, quantity } of lines) {
        const found = await tx`update shop.stock set available = available - ${quantity}
                               where sku = ${sku} and available >= ${quantity} returning sku`
        if (found.length === 0) throw new PermanentError(`${sku} is out of stock`)
      }
      await note(tx, id, 'reserved')
    }),
})

export const release = defineJob({
  type: 'order.release',
  payload: undoing(Order),
  run: ({ input: { id, lines } }, ctx) =>
    completing(ctx, async (tx) => {
      for (const { sku, quantity } of lines)
        await tx`update shop.stock set available = available + ${quantity} where sku = ${sku}`
      await note(tx, id, 'released')
    }),
})

const Payment = z.object({ id: z.int(), card: z.string(), cents: z.int() })

export const charge = defineJob({
  type: 'order.charge',
  payload: Payment,
  run: ({ id, card, cents }, ctx) =>
    completing(ctx, async (tx) => {
      const found = await tx`update shop.card set balance_cents = balance_cents - ${cents}
                             where number = ${card} and balance_cents >= ${cents} returning number`
      if (found.length === 0) throw new PermanentError(`the card ${card} was declined`)
      await note(tx, id, 'charged')
      return { cents }
    }),
})

export const refund = defineJob({
  type: 'order.refund',
  payload: undoing(Payment),
  run: ({ input: { id, card, cents } }, ctx) =>
    completing(ctx, async (tx) => {
      await tx`update shop.card set balance_cents = balance_cents + ${cents} where number = ${card}`
      await note(tx, id, 'refunded')
    }),
})

const Packing = z.object({ id: z.int(), parcels: z.array(Parcel) })

export const pack = defineJob({
  type: 'order.pack',
  payload: Packing,
  run: ({ id, parcels }, ctx) =>
    completing(ctx, async (tx) => {
      await tx`insert into shop.parcel ${tx(parcels.map((parcel) => ({ order_id: id, ...parcel })))}`
      await note(tx, id, 'packed')
    }),
})

/** Parcels that are on their way already come back as well. */
export const unpack = defineJob({
  type: 'order.unpack',
  payload: undoing(Packing),
  run: ({ input: { id } }, ctx) =>
    completing(ctx, async (tx) => {
      await tx`delete from shop.parcel where order_id = ${id}`
      await note(tx, id, 'unpacked')
    }),
})

export const ship = defineJob({
  type: 'parcel.ship',
  payload: z.object({ id: z.int(), country: z.string(), parcel: Parcel }),
  run: ({ id, country, parcel: { no } }, ctx) =>
    completing(ctx, async (tx) => {
      if (!SERVED.includes(country)) throw new PermanentError(`no carrier goes to ${country}`)
      const tracking = `${country}-${id}-${no}`
      await tx`update shop.parcel set tracking = ${tracking} where order_id = ${id} and no = ${no}`
      return { tracking }
    }),
})

export const invoice = defineJob({
  type: 'order.invoice',
  payload: z.object({
    id: z.int(),
    cents: z.int(),
    shipped: z.array(z.object({ tracking: z.string() })),
  }),
  run: ({ id, cents, shipped }, ctx) =>
    completing(ctx, async (tx) => {
      const [row] = await tx<{ no: number }[]>`
        insert into shop.invoice (order_id, cents) values (${id}, ${cents}) returning no`
      await note(tx, id, 'invoiced')
      return { no: row?.no, cents, tracking: shipped.map(({ tracking }) => tracking) }
    }),
})

async function note(tx: Transaction, order: number, entry: string): Promise<void> {
  await tx`insert into shop.ledger (order_id, entry) values (${order}, ${entry})`
}
