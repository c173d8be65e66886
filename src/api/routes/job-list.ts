import { z } from '@hono/zod-openapi'
import { explainJob, listJobs } from '../../database/engine.ts'
import { boundedPage, decodeCursor, isId } from '../cursor.ts'
import { endpoint } from '../endpoint.ts'
import { fields, idParams, limit, time } from '../fields.ts'
import { Job, pageOf } from '../schemas.ts'

const list = endpoint({
  method: 'get',
  path: '/jobs',
  tag: 'jobs',
  summary: 'Jobs that match, newest first',
  description:
    'One answer looks at no more than 10,000 jobs: an answer that is not full may still have a ' +
    'next_cursor, and the list goes on there.',
  query: fields('query option', {
    type: z.string().optional(),
    status: z
      .string()
      .optional()
      .openapi({
        enum: [
          'pending',
          'running',
          'waiting',
          'completed',
          'dead_letter',
          'cancelled',
          'discarded',
        ],
      }),
    tenant: z.string().optional(),
    priority: z.string().optional().openapi({ type: 'integer' }),
    created_after: time.optional(),
    created_before: time.optional(),
    error: z
      .string()
      .optional()
      .openapi({ description: 'A part of the final error of dead letters.' }),
    worker: z.string().optional().openapi({ description: 'The worker that runs them.' }),
    idempotency_key: z.string().optional(),
    limit,
    after: z.string().optional().openapi({ description: 'next_cursor of the page before.' }),
  }),
  answers: { 200: { description: 'A part of the list.', schema: pageOf(Job) } },
  handle: async ({ query: { limit: most, after, ...filter } }, { db }) => {
    const rows = await listJobs(db, filter, {
      max: most,
      after: after === undefined ? undefined : decodeCursor(after, isId),
    })
    return { status: 200, body: boundedPage(rows, most) }
  },
})

const Reason = z
  .object({
    reason: z.string().openapi({ example: 'no_worker' }),
    detail: z.string(),
    since: z.iso.datetime().nullable(),
    release: z.string().openapi({ description: 'What would change it.' }),
  })
  .openapi('Reason')

const explain = endpoint({
  method: 'get',
  path: '/jobs/{id}/explain',
  tag: 'jobs',
  summary: 'Why a job is not running, or where it is',
  params: idParams,
  answers: {
    200: { description: 'Each reason that holds.', schema: z.object({ items: z.array(Reason) }) },
  },
  problems: ['JE002'],
  handle: async ({ params: { id } }, { db }) => ({
    status: 200,
    body: { items: await explainJob(db, id) },
  }),
})

export const jobListRoutes = [list, explain]
