// The steps of a trade. Money moves in the transaction that completes the job: never twice, never half.

import { defineJob, PermanentError } from 'fencepost'
import { z } from 'zod'
import { completing } from '../database.ts'
import { priceOn, riskOn } from './prices.ts'
import { Order, Trade } from './trade.ts'

/** The account that sells. */
const MARKET = 'market'

/** A trade that may lose more than this in a day is looked at by a person. */
const MAX_RISK_CENTS = 500_000

export const generate = defineJob({
  type: 'trade.generate',
  payload: Order,
  run: (order, ctx) =>
    completing(ctx, async (tx) => {
      const { id, account, date, shares } = order
      const price = priceOn(date)
      if (price === undefined) throw new PermanentError(`nothing was traded on ${date}`)
      const cents = shares * price
      await tx`insert into bank.trade (id, account, shares, cents, status)
               values (${id}, ${account}, ${shares}, ${cents}, 'open')`
      return { ...order, cents }
    }),
})

export const checkRisk = defineJob({
  type: 'trade.risk',
  payload: Trade,
  run: ({ date, cents }) => {
    const atRisk = Math.round(cents * riskOn(date))
    return { cents: atRisk, level: atRisk > MAX_RISK_CENTS ? 'high' : 'low' }
  },
})

export const settle = defineJob({
  type: 'trade.settle',
  payload: Trade,
  run: ({ id, account, cents }, ctx) =>
    completing(ctx, async (tx) => {
      const paid = await tx`update bank.account set cents = cents - ${cents}
                            where id = ${account} and cents >= ${cents} returning id`
      if (paid.length === 0) throw new PermanentError(`${account} cannot pay ${cents / 100}`)
      await tx`update bank.account set cents = cents + ${cents} where id = ${MARKET}`
      await tx`insert into bank.posting (trade, account, cents)
               values (${id}, ${account}, ${-cents}), (${id}, ${MARKET}, ${cents})`
      return { paid: cents }
    }),
})

/** Ends every trade. Each event carries the hash of the one before it, so that none is changed unseen. */
export const audit = defineJob({
  type: 'trade.audit',
  payload: z.object({
    trade: Trade,
    risk: z.unknown(),
    review: z.unknown(),
    settled: z.unknown(),
    error: z.string().nullable(),
  }),
  run: ({ trade, risk, review, settled, error }, ctx) =>
    completing(ctx, async (tx) => {
      const outcome = settled !== null ? 'settled' : error !== null ? 'failed' : 'refused'
      const event = JSON.stringify({ outcome, trade, risk, review, error })
      await tx`update bank.trade set status = ${outcome} where id = ${trade.id}`
      await tx`lock table bank.audit in exclusive mode`
      await tx`
        insert into bank.audit (trade, event, previous, hash)
        select ${trade.id}, n.event, p.hash, encode(sha256(convert_to(p.hash || n.event::text, 'UTF8')), 'hex')
        from (select ${event}::text::jsonb as event) as n,
             (select coalesce((select a.hash from bank.audit a order by a.id desc limit 1), '') as hash) as p`
      return { outcome }
    }),
})
