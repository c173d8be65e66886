import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { priceOn, riskOn } from '../../examples/finance/prices.ts'
import { type Example, startExample } from './example.ts'

type Finance = typeof import('../../examples/finance/workflow.ts')

let example: Example<Finance>
beforeAll(async () => {
  example = await startExample(() => import('../../examples/finance/workflow.ts'))
})
afterAll(() => example.stop())

const DATE = '2018-03-01' // the share closed at 175.00

function start(id: number, shares: number, account = 'fund') {
  return example.engine.start(example.workflow, { id, account, date: DATE, shares })
}

async function balances(): Promise<Record<string, number>> {
  const [row] = await example.db.query<{ cents: Record<string, number> }>(
    'select jsonb_object_agg(id, cents) as cents from bank.account',
  )
  return row?.cents ?? {}
}

it('knows prices and their risk', () => {
  expect(priceOn(DATE)).toBe(17_500)
  expect(priceOn('2018-03-03')).toBeUndefined() // a Saturday
  expect(riskOn(DATE)).toBeGreaterThan(0.01)
  expect(riskOn(DATE)).toBeLessThan(0.06)
})

describe('a trade', () => {
  it('of low risk is settled at once', async () => {
    const run = await start(1, 10)
    expect(await run.result()).toEqual({ audit: { outcome: 'settled' } })
    expect(await balances()).toMatchObject({ fund: 999_825_000, market: 175_000 })
  })

  it('of high risk waits for a person, and is settled when that approves', async () => {
    const run = await start(2, 5_000)
    const approval = await example.approval(run.id)
    expect(await balances()).toMatchObject({ market: 175_000 })
    await example.engine.approve(approval, { decidedBy: 'risk desk' })
    expect(await run.result()).toEqual({ audit: { outcome: 'settled' } })
    expect(await balances()).toMatchObject({ market: 87_675_000 })
  })

  it('that is rejected moves nothing', async () => {
    const before = await balances()
    const run = await start(3, 5_000)
    await example.engine.reject(await example.approval(run.id), { decidedBy: 'risk desk' })
    expect(await run.result()).toEqual({ audit: { outcome: 'refused' } })
    expect(await balances()).toEqual(before)
  })

  it('that cannot be paid moves nothing either', async () => {
    const before = await balances()
    const run = await start(4, 10, 'purse')
    expect(await run.result()).toEqual({ audit: { outcome: 'failed' } })
    expect(await balances()).toEqual(before)
  })

  it('needs a day on which there was a price', async () => {
    const order = { id: 5, account: 'fund', date: '2018-03-03', shares: 1 }
    const run = await example.engine.start(example.workflow, order)
    await expect(run.result()).rejects.toThrow(/nothing was traded/)
  })
})

describe('afterwards', () => {
  it('the postings of each trade add up to zero, and the balances to what there was', async () => {
    const rows = await example.db.query(
      'select trade, sum(cents)::int as sum from bank.posting group by trade order by trade',
    )
    expect(rows).toEqual([
      { trade: 1, sum: 0 },
      { trade: 2, sum: 0 },
    ])
    const total = Object.values(await balances()).reduce((sum, cents) => sum + cents, 0)
    expect(total).toBe(1_000_001_000)
  })

  it('the audit log tells of every trade and its decision, in an unbroken chain', async () => {
    const rows = await example.db.query(
      `select a.trade, a.event ->> 'outcome' as outcome, a.event #>> '{review,decided_by}' as by,
              a.event ->> 'error' as error,
              a.previous = lag(a.hash, 1, '') over (order by a.id)
                and a.hash = encode(sha256(convert_to(a.previous || a.event::text, 'UTF8')), 'hex') as sound
       from bank.audit a order by a.id`,
    )
    expect(rows).toEqual([
      { trade: 1, outcome: 'settled', by: null, error: null, sound: true },
      { trade: 2, outcome: 'settled', by: 'risk desk', error: null, sound: true },
      { trade: 3, outcome: 'refused', by: 'risk desk', error: null, sound: true },
      { trade: 4, outcome: 'failed', by: null, error: 'purse cannot pay 1750', sound: true },
    ])
  })
})
