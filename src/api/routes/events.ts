import { z } from '@hono/zod-openapi'
import { type EventFilter, eventPosition, listEvents } from '../../database/engine.ts'
import { follow } from '../../outbox/follow.ts'
import { endpoint } from '../endpoint.ts'
import { LogEvent, position } from '../event-schemas.ts'
import { eventStream } from '../event-stream.ts'
import { fields, limit } from '../fields.ts'

/** The most events that a stream holds for its client. */
const STREAM_MAX = 100
/** The longest pause between two looks of a stream, in ms. */
const STREAM_POLL = 500

/** Words with commas between them, or given more than once. */
const words = z
  .union([z.string(), z.array(z.string())])
  .transform((given) => [given].flat().flatMap((each) => each.split(',')))
  .optional()

const narrowing = {
  kinds: words.openapi({
    type: 'string',
    description: 'Kinds with commas between them; a star at the end means all that begin so.',
    example: 'job.completed,run.*',
  }),
  types: words.openapi({
    type: 'string',
    description: 'Types of jobs with commas between them: then events of no job are left out.',
    example: 'email.send',
  }),
  tenant: z.string().optional(),
}
const after = z.string().optional()

const list = endpoint({
  method: 'get',
  path: '/events',
  tag: 'events',
  summary: 'What happened, in commit order',
  description:
    'Who sends the position of an answer as `after` goes on without a gap: an event whose transaction commits late ' +
    'comes after its commit, once. A position is good while its events are kept.',
  query: fields('query option', {
    ...narrowing,
    limit,
    after: after.openapi({
      description: 'A position, beginning (of what is kept; the default), now, or a time.',
    }),
  }),
  answers: {
    200: {
      description: 'The next events.',
      schema: z.object({
        items: z.array(LogEvent),
        position: position.openapi({ description: 'Send it as `after` to go on, at any time.' }),
      }),
    },
  },
  problems: ['JE004'],
  handle: async ({ query: { limit: max, after, ...filter } }, { db }) => {
    const from = await eventPosition(db, after ?? 'beginning')
    const { events, reached } = await listEvents(db, { after: from, max, filter: given(filter) })
    return { status: 200, body: { items: events, position: reached ?? from } }
  },
})

const stream = endpoint({
  method: 'get',
  path: '/events/stream',
  tag: 'events',
  summary: 'What happens, as it happens',
  description:
    'Server-sent events: `data` is an event as JSON, `id` its position. A client that comes back says it as ' +
    '`Last-Event-ID`, as EventSource does, and misses nothing. Comments say that it is alive.',
  query: fields('query option', {
    ...narrowing,
    after: after.openapi({
      description: 'Where it begins: now (the default), beginning, a time, or a position.',
    }),
  }),
  headers: z.object({
    'last-event-id': z
      .string()
      .optional()
      .openapi({ description: 'The position to go on from, instead of `after`.' }),
  }),
  answers: {
    200: { description: 'The stream.', schema: z.string(), type: 'text/event-stream' },
  },
  problems: ['JE004'],
  handle: async ({ query: { after, ...narrow }, headers }, services) => {
    const { db, log, heartbeat, stopping } = services
    const filter = given(narrow)
    // refused before it begins: what is wrong with a place or a filter, and a database that is down
    const from = await eventPosition(db, headers['last-event-id'] || after)
    await listEvents(db, { after: from, max: 1, filter })
    const ending = new AbortController()
    const signal = AbortSignal.any([ending.signal, stopping])
    const options = { after: from, filter, max: STREAM_MAX, poll: STREAM_POLL, signal }
    const looks = follow(db, {
      ...options,
      onTrouble: (error) => log.warn({ err: error }, 'a stream of events waits for the database'),
    })
    return {
      status: 200,
      stream: {
        type: 'text/event-stream; charset=utf-8',
        body: eventStream({ position: from, looks, ending, heartbeat, log }),
      },
      headers: { 'cache-control': 'no-store', 'x-accel-buffering': 'no' },
    }
  },
})

export const eventRoutes = [list, stream]

/** A filter without what was not said. */
function given({
  kinds,
  types,
  tenant,
}: { [Key in keyof EventFilter]?: EventFilter[Key] | undefined }): EventFilter {
  return {
    ...(kinds === undefined ? {} : { kinds }),
    ...(types === undefined ? {} : { types }),
    ...(tenant === undefined ? {} : { tenant }),
  }
}
