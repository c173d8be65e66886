import { z } from '@hono/zod-openapi'
import {
  ackEvents,
  consumers,
  createConsumer,
  parkEvent,
  readEvents,
  seekConsumer,
} from '../../database/engine.ts'
import { dropExistingConsumer, existingConsumer } from '../../outbox/existing-consumer.ts'
import { endpoint } from '../endpoint.ts'
import { Consumer, LogEvent, position } from '../event-schemas.ts'
import { anyJson, fields, interval } from '../fields.ts'

/** The parameter `{name}` of a path. */
export const consumerParams = z.object({ name: z.string().openapi({ example: 'billing' }) })

const list = endpoint({
  method: 'get',
  path: '/consumers',
  tag: 'consumers',
  summary: 'Where each consumer stands, and how far behind',
  answers: { 200: { description: 'By name.', schema: z.object({ items: z.array(Consumer) }) } },
  handle: async (_, { db }) => ({ status: 200, body: { items: await consumers(db) } }),
})

const get = endpoint({
  method: 'get',
  path: '/consumers/{name}',
  tag: 'consumers',
  summary: 'One consumer',
  params: consumerParams,
  answers: { 200: { description: 'The consumer.', schema: Consumer } },
  problems: ['JE002'],
  handle: async ({ params: { name } }, { db }) => ({
    status: 200,
    body: await existingConsumer(db, name),
  }),
})

const put = endpoint({
  method: 'put',
  path: '/consumers/{name}',
  tag: 'consumers',
  summary: 'Make a consumer',
  description: 'May be repeated. One that exists with other settings is refused.',
  params: consumerParams,
  body: fields('field', {
    filter: anyJson.optional().openapi({
      description: 'Which events it gets: kinds, types and tenant. Default: all.',
      example: { kinds: ['job.completed', 'run.*'] },
    }),
    start: z.string().optional().openapi({
      description: 'now (the default), beginning (of what is kept), a time, or a position.',
    }),
    max_lag: interval.nullable().optional().openapi({
      description: 'How old its oldest unread event may be. Default 7 days; null is no limit.',
    }),
  }),
  bodyRequired: false,
  answers: {
    200: { description: 'It was there.', schema: Consumer },
    201: { description: 'It is new.', schema: Consumer },
  },
  problems: ['JE004'],
  handle: async ({ params: { name }, body: { filter, ...settings } }, { db }) =>
    db.transaction(async (tx) => {
      const isNew = await createConsumer(tx, { name, filter: filter as never, ...settings })
      return { status: isNew ? 201 : 200, body: await existingConsumer(tx, name) }
    }),
})

const drop = endpoint({
  method: 'delete',
  path: '/consumers/{name}',
  tag: 'consumers',
  summary: 'Remove a consumer, its position and its parked events',
  params: consumerParams,
  answers: { 204: { description: 'It is gone.' } },
  problems: ['JE001', 'JE002'],
  handle: async ({ params: { name } }, { db }) => {
    await dropExistingConsumer(db, name)
    return { status: 204 }
  },
})

const seek = endpoint({
  method: 'post',
  path: '/consumers/{name}/seek',
  tag: 'consumers',
  summary: 'Move a consumer',
  description: 'Whoever reads it loses the lease. One that had expired reads again.',
  params: consumerParams,
  body: fields('field', {
    to: z.string().openapi({
      description: 'beginning (of what is kept), now, a time, or a position.',
      example: 'beginning',
    }),
  }),
  answers: { 200: { description: 'The consumer where it is now.', schema: Consumer } },
  problems: ['JE001', 'JE002', 'JE004'],
  handle: async ({ params: { name }, body: { to } }, { db }) =>
    db.transaction(async (tx) => {
      await seekConsumer(tx, name, to)
      return { status: 200, body: await existingConsumer(tx, name) }
    }),
})

const read = endpoint({
  method: 'post',
  path: '/consumers/{name}/read',
  tag: 'consumers',
  summary: 'Read the next events of a consumer',
  description:
    'They come again until they are acknowledged. Until then, or until the lease ends, another reader gets nothing.',
  params: consumerParams,
  body: fields('field', {
    reader: z.string().openapi({
      description: 'Who reads: a name that no other process uses.',
      example: 'billing-1',
    }),
    max: z.number().optional().openapi({
      type: 'integer',
      minimum: 1,
      maximum: 10_000,
      default: 100,
      description: 'The most events.',
    }),
    lease: interval.optional().openapi({ description: 'Default 30 seconds.' }),
  }),
  answers: {
    200: {
      description:
        'The next events; none when there is nothing new or another reader has the lease.',
      schema: z.object({
        items: z.array(LogEvent),
        position: position
          .nullable()
          .openapi({ description: 'Acknowledges all of them; null when there are none.' }),
      }),
    },
  },
  problems: ['JE002', 'JE004'],
  handle: async ({ params: { name: consumer }, body: { reader, max, lease } }, { db }) => {
    const items = await readEvents(db, {
      consumer,
      reader,
      ...(max === undefined ? {} : { max }),
      ...(lease === undefined ? {} : { lease }),
    })
    return { status: 200, body: { items, position: items.at(-1)?.position ?? null } }
  },
})

const ack = endpoint({
  method: 'post',
  path: '/consumers/{name}/ack',
  tag: 'consumers',
  summary: 'Say that events are done',
  description: 'All up to and with this position. It may be repeated.',
  params: consumerParams,
  body: fields('field', { position }),
  answers: {
    200: {
      description: 'They do not come again.',
      schema: z.object({
        moved: z
          .boolean()
          .openapi({ description: 'False when they had been acknowledged before.' }),
      }),
    },
  },
  problems: ['JE001', 'JE002', 'JE004'],
  handle: async ({ params: { name }, body: { position } }, { db }) => ({
    status: 200,
    body: { moved: await ackEvents(db, name, position) },
  }),
})

const park = endpoint({
  method: 'post',
  path: '/consumers/{name}/park',
  tag: 'consumers',
  summary: 'Set an event aside that cannot be delivered',
  description: 'Acknowledge it then like the others.',
  params: consumerParams,
  body: fields('field', {
    position: position.openapi({ description: 'The position that came with the event.' }),
    reason: z.string(),
  }),
  answers: { 204: { description: 'It is parked.' } },
  problems: ['JE001', 'JE002'],
  handle: async ({ params: { name }, body: { position, reason } }, { db }) => {
    await parkEvent(db, name, position, reason)
    return { status: 204 }
  },
})

export const consumerRoutes = [list, get, put, drop, seek, read, ack, park]
