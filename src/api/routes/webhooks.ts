import { z } from '@hono/zod-openapi'
import {
  configureWebhook,
  createWebhook,
  rotateWebhookSecret,
  webhooks,
} from '../../database/engine.ts'
import { dropExistingWebhook, existingWebhook } from '../../outbox/existing-webhook.ts'
import { endpoint } from '../endpoint.ts'
import { anyJson, fields, interval } from '../fields.ts'
import { Webhook } from '../webhook-schemas.ts'

const params = z.object({ name: z.string().openapi({ example: 'billing' }) })

const filter = anyJson.optional().openapi({
  description: 'Which events it gets: kinds, types and tenant.',
  example: { kinds: ['job.completed', 'run.*'] },
})
const url = z.string().openapi({ example: 'https://example.com/hooks' })
const secret = z.string().openapi({ description: 'whsec_ and base64.' })
const withSecret = (description: string) => ({
  description,
  schema: z.object({ name: z.string(), secret }),
})

const list = endpoint({
  method: 'get',
  path: '/webhooks',
  tag: 'webhooks',
  summary: 'The endpoints that get events, and how they stand',
  answers: { 200: { description: 'By name.', schema: z.object({ items: z.array(Webhook) }) } },
  handle: async (_, { db }) => ({ status: 200, body: { items: await webhooks(db) } }),
})

const get = endpoint({
  method: 'get',
  path: '/webhooks/{name}',
  tag: 'webhooks',
  summary: 'One webhook',
  params,
  answers: { 200: { description: 'The webhook.', schema: Webhook } },
  problems: ['JE002'],
  handle: async ({ params: { name } }, { db }) => ({
    status: 200,
    body: await existingWebhook(db, name),
  }),
})

const create = endpoint({
  method: 'post',
  path: '/webhooks',
  tag: 'webhooks',
  summary: 'Make an endpoint that gets events',
  description: 'A relay delivers them: fencepost relay webhook.',
  body: fields('field', {
    name: z.string().openapi({ example: 'billing' }),
    url,
    filter,
    secret: secret.optional().openapi({ description: 'whsec_ and base64. Default: one is made.' }),
    start: z.string().optional().openapi({
      description: 'now (the default), beginning (of what is kept), a time, or a position.',
    }),
    max_lag: interval.nullable().optional().openapi({
      description: 'How old its oldest unread event may be. Default 7 days; null is no limit.',
    }),
  }),
  answers: { 201: withSecret('Its secret, which is shown this once.') },
  problems: ['JE004'],
  handle: async ({ body: { filter, ...webhook } }, { db }) => ({
    status: 201,
    body: {
      name: webhook.name,
      secret: await createWebhook(db, { ...webhook, filter: filter as never }),
    },
  }),
})

const change = endpoint({
  method: 'patch',
  path: '/webhooks/{name}',
  tag: 'webhooks',
  summary: 'Change, pause or resume a webhook',
  description: 'What is left out stays as it is.',
  params,
  body: fields('setting', {
    url: url.optional(),
    filter,
    paused: z.boolean().optional().openapi({
      description: 'True: nothing is sent, events wait in the log.',
    }),
    reason: z.string().optional().openapi({ description: 'Why it is paused.' }),
    max_attempts: z.number().optional().openapi({ type: 'integer', minimum: 1 }),
    timeout: interval.optional().openapi({ description: 'Of one attempt: 1 second to 5 minutes.' }),
    max_running: z.number().optional().openapi({ type: 'integer', minimum: 1, maximum: 1000 }),
    backoff_base: interval.optional(),
    backoff_cap: interval.optional(),
  }),
  answers: { 200: { description: 'The webhook as it is now.', schema: Webhook } },
  problems: ['JE002'],
  handle: async ({ params: { name }, body: { filter, ...change } }, { db }) =>
    db.transaction(async (tx) => {
      await configureWebhook(tx, name, { ...change, filter: filter as never })
      return { status: 200, body: await existingWebhook(tx, name) }
    }),
})

const rotate = endpoint({
  method: 'post',
  path: '/webhooks/{name}/rotate-secret',
  tag: 'webhooks',
  summary: 'Give a webhook a new secret',
  params,
  body: fields('field', {
    keep_old: interval.optional().openapi({
      description: 'How long messages are signed with the old one, too. Default 1 day.',
    }),
    secret: secret.optional().openapi({ description: 'whsec_ and base64. Default: one is made.' }),
  }),
  bodyRequired: false,
  answers: { 200: withSecret('Its new secret, which is shown this once.') },
  problems: ['JE002', 'JE004'],
  handle: async ({ params: { name }, body }, { db }) => ({
    status: 200,
    body: { name, secret: await rotateWebhookSecret(db, name, body) },
  }),
})

const drop = endpoint({
  method: 'delete',
  path: '/webhooks/{name}',
  tag: 'webhooks',
  summary: 'Remove a webhook, and cancel its deliveries',
  params,
  answers: { 204: { description: 'It is gone.' } },
  problems: ['JE001', 'JE002'],
  handle: async ({ params: { name } }, { db }) => {
    await dropExistingWebhook(db, name)
    return { status: 204 }
  },
})

export const webhookRoutes = [list, get, create, change, rotate, drop]
