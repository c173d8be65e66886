import { z } from '@hono/zod-openapi'
import { stats } from '../../database/engine.ts'
import { endpoint } from '../endpoint.ts'
import { fields } from '../fields.ts'

const count = z.int()
const rate = z.number().openapi({ description: 'Over the last one to two minutes.' })

const Stats = z
  .object({
    type: z.string(),
    ready: count,
    delayed: count,
    parked: count,
    pending: count,
    running: count,
    waiting: count,
    dead_letter: count,
    oldest_ready_seconds: z.number().nullable(),
    enqueued_total: count,
    completed_total: count,
    failed_attempts_total: count,
    retried_total: count,
    dead_lettered_total: count,
    cancelled_total: count,
    discarded_total: count,
    replayed_total: count,
    lease_expired_total: count,
    enqueued_per_second: rate,
    completed_per_second: rate,
    failed_per_second: rate,
    workers: count,
    draining_workers: count,
    paused: z.boolean(),
    accept: z.boolean(),
    max_running: count.nullable(),
    max_pending: count.nullable(),
    dead_letter_alert: count,
  })
  .openapi('Stats')

const readStats = endpoint({
  method: 'get',
  path: '/stats',
  tag: 'types',
  summary: 'How each type stands now',
  description: 'Depths, ages, totals and rates, from counters: nothing is counted for it.',
  query: fields('query option', { type: z.string().optional() }),
  answers: { 200: { description: 'By type.', schema: z.object({ items: z.array(Stats) }) } },
  problems: ['JE002'],
  handle: async ({ query: { type } }, { db }) => ({
    status: 200,
    body: { items: await stats(db, type) },
  }),
})

export const statsRoutes = [readStats]
