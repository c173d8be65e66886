import { z } from '@hono/zod-openapi'
import { interval } from './fields.ts'

const time = z.iso.datetime().openapi({ example: '2030-01-01T00:00:00.000Z' })
const text = z.string()
const count = z.int()
const words = z.array(text).nullable()

/** A row of `fencepost.webhooks`, for the reference. */
export const Webhook = z
  .object({
    name: text.openapi({ example: 'billing' }),
    url: text.openapi({ example: 'https://example.com/hooks' }),
    kinds: words,
    types: words,
    tenant: text.nullable(),
    paused: z.boolean(),
    paused_reason: text.nullable(),
    max_attempts: count,
    timeout: interval.nullable(),
    max_running: count.nullable(),
    backoff_base: interval,
    backoff_cap: interval,
    waiting: count.openapi({ description: 'Deliveries that wait for their next attempt.' }),
    dead_letters: count,
    lag_events: count.openapi({ description: 'Events that are no deliveries yet, of all kinds.' }),
    old_secret_until: time.nullable().openapi({
      description: 'Until when messages are signed with an old secret, too.',
    }),
    error: text.nullable().openapi({
      description: 'Why its events could not be made deliveries at the last try.',
    }),
    error_at: time.nullable(),
    consumer: text,
    type: text.openapi({ example: 'fencepost.webhook.billing' }),
    created_at: time,
    updated_at: time,
  })
  .openapi('Webhook')
