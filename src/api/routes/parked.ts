import { z } from '@hono/zod-openapi'
import { discardParked, parkedEvents, replayParked } from '../../database/engine.ts'
import { FencepostError } from '../../errors.ts'
import { existingConsumer } from '../../outbox/existing-consumer.ts'
import { decodeCursor, isId, page } from '../cursor.ts'
import { endpoint } from '../endpoint.ts'
import { ParkedEvent } from '../event-schemas.ts'
import { fields, limit } from '../fields.ts'
import { pageOf } from '../schemas.ts'
import { consumerParams } from './consumers.ts'

const list = endpoint({
  method: 'get',
  path: '/consumers/{name}/parked',
  tag: 'consumers',
  summary: 'Events that a consumer set aside, oldest first',
  params: consumerParams,
  query: fields('query option', {
    limit,
    after: z.string().optional().openapi({ description: 'next_cursor of the page before.' }),
  }),
  answers: { 200: { description: 'A part of the list.', schema: pageOf(ParkedEvent) } },
  problems: ['JE002'],
  handle: async ({ params: { name }, query: { limit: most, after: cursor } }, { db }) => {
    const after = cursor === undefined ? undefined : decodeCursor(cursor, isId)
    const [rows] = await Promise.all([
      parkedEvents(db, name, { after, limit: most + 1 }),
      existingConsumer(db, name),
    ])
    return { status: 200, body: page(rows, most, ({ event_id }) => event_id) }
  },
})

/** Which ones: nobody means all by leaving something out. */
const which = fields('field', {
  event_ids: z.array(z.int()).optional(),
  all: z.literal(true).optional().openapi({ description: 'All of them, instead of event_ids.' }),
})

const change = (verb: 'replay' | 'discard') =>
  endpoint({
    method: 'post',
    path: `/consumers/{name}/parked/${verb}`,
    tag: 'consumers',
    summary:
      verb === 'replay'
        ? 'Let parked events be read again, before anything else'
        : 'Remove parked events for good',
    params: consumerParams,
    body: which,
    answers: {
      200: { description: 'How many.', schema: z.object({ count: z.int() }) },
    },
    problems: ['JE002'],
    handle: async ({ params: { name }, body: { event_ids, all } }, { db }) => {
      if ((event_ids === undefined) === (all === undefined)) throw unclear()
      const act = verb === 'replay' ? replayParked : discardParked
      return { status: 200, body: { count: await act(db, name, event_ids) } }
    },
  })

export const parkedRoutes = [list, change('replay'), change('discard')]

function unclear(): FencepostError {
  return new FencepostError('JE003', 'which events?', {
    hint: 'Give either event_ids, or all: true.',
  })
}
