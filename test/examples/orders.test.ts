import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { z } from 'zod'
import type { Order as OrderSchema } from '../../examples/orders/order.ts'
import { RunFailedError } from '../../src/index.ts'
import { type Example, startExample } from './example.ts'

type Orders = typeof import('../../examples/orders/workflow.ts')

let example: Example<Orders>
beforeAll(async () => {
  example = await startExample(() => import('../../examples/orders/workflow.ts'))
})
afterAll(() => example.stop())

const lamps = { sku: 'lamp', quantity: 2, cents: 4_500, grams: 1_200 }
const anvils = { sku: 'anvil', quantity: 3, cents: 40_000, grams: 9_000 }

type Order = z.infer<typeof OrderSchema>

function start(order: Pick<Order, 'id' | 'lines'> & Partial<Order>) {
  return example.engine.start(example.workflow, { card: '4242', country: 'DE', ...order })
}

/** What a run that fails says, once all is undone. */
async function failure(run: Awaited<ReturnType<typeof start>>): Promise<RunFailedError> {
  const error = await run.result().catch((reason) => reason)
  expect(error).toBeInstanceOf(RunFailedError)
  return error
}

async function ledger(order: number): Promise<string[]> {
  const rows = await example.db.query<{ entry: string }>(
    'select entry from shop.ledger where order_id = $1 order by id',
    [order],
  )
  return rows.map(({ entry }) => entry)
}

/** What is in stock, on the card and in parcels. */
async function state(): Promise<unknown> {
  const [row] = await example.db.query(
    `select (select jsonb_object_agg(sku, available) from shop.stock) as stock,
            (select balance_cents from shop.card where number = '4242') as balance,
            (select count(*)::int from shop.parcel) as parcels`,
  )
  return row
}

describe('an order', () => {
  it('is shipped and invoiced; a small one asks nobody', async () => {
    const run = await start({ id: 1, lines: [lamps] })
    expect(await run.result()).toEqual({
      invoice: { no: 1, cents: 9_000, tracking: ['DE-1-1'] },
    })
    expect(await ledger(1)).toEqual(['reserved', 'charged', 'packed', 'invoiced'])
    expect(await state()).toEqual({
      stock: { lamp: 18, anvil: 5 },
      balance: 491_000,
      parcels: 1,
    })
  })

  it('over 1,000 waits for somebody; it goes in as many parcels as it needs', async () => {
    const run = await start({ id: 2, lines: [anvils] })
    const approval = await example.approval(run.id)
    expect(await ledger(2)).toEqual(['reserved', 'charged'])
    await example.engine.approve(approval, { decidedBy: 'ada' })
    const { invoice } = await run.result()
    expect(invoice?.tracking).toEqual(['DE-2-1', 'DE-2-2'])
  })
})

describe('what was done is undone', () => {
  it('when the card is declined: the stock is released', async () => {
    const before = await state()
    const error = await failure(await start({ id: 3, card: '0001', lines: [lamps] }))
    expect(error).toMatchObject({ status: 'compensated' })
    expect(error.message).toContain('the card 0001 was declined')
    expect(await ledger(3)).toEqual(['reserved', 'released'])
    expect(await state()).toEqual(before)
  })

  it('when a parcel cannot be shipped: children before parents', async () => {
    const before = await state()
    const error = await failure(await start({ id: 4, country: 'AQ', lines: [lamps] }))
    expect(error).toMatchObject({ status: 'compensated' })
    expect(await ledger(4)).toEqual([
      'reserved',
      'charged',
      'packed',
      'unpacked',
      'refunded',
      'released',
    ])
    expect(await state()).toEqual(before)
  })

  it('when the review is rejected', async () => {
    const before = await state()
    const run = await start({ id: 5, lines: [{ ...anvils, quantity: 1, cents: 200_000 }] })
    await example.engine.reject(await example.approval(run.id), { comment: 'not to them' })
    expect(await failure(run)).toMatchObject({ status: 'compensated' })
    expect(await ledger(5)).toEqual(['reserved', 'charged', 'refunded', 'released'])
    expect(await state()).toEqual(before)
  })

  it('but nothing is, where nothing was done', async () => {
    const before = await state()
    const error = await failure(await start({ id: 6, lines: [{ ...lamps, quantity: 99 }] }))
    expect(error.message).toContain('lamp is out of stock')
    expect(await ledger(6)).toEqual([])
    expect(await state()).toEqual(before)
  })
})
