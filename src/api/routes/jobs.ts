import { z } from '@hono/zod-openapi'
import { attempts, type HistoryKey, history, leaseOf } from '../../database/engine.ts'
import { decodeCursor, page } from '../cursor.ts'
import { endpoint } from '../endpoint.ts'
import { fields, idParams, limit } from '../fields.ts'
import { Attempt, Event, Job, jobDetails, Lease, pageOf } from '../schemas.ts'
import { existingJob } from './existing.ts'

/** How many events a job's own page shows. */
const NEWEST = 50

const readOne = endpoint({
  method: 'get',
  path: '/jobs/{id}',
  tag: 'jobs',
  summary: 'Where a job stands',
  description: `With its lease while it runs, and its newest ${NEWEST} events, newest first.`,
  params: idParams,
  answers: {
    200: {
      description: 'The job.',
      schema: Job.extend({ ...jobDetails, lease: Lease.nullable(), events: z.array(Event) }),
    },
  },
  problems: ['JE002'],
  handle: async ({ params: { id } }, { db }) => {
    const [job, lease, events] = await Promise.all([
      existingJob(db, id),
      leaseOf(db, id),
      history(db, id, { limit: NEWEST }),
    ])
    return { status: 200, body: { ...job, lease: lease ?? null, events: events.map(withoutPlace) } }
  },
})

const listAttempts = endpoint({
  method: 'get',
  path: '/jobs/{id}/attempts',
  tag: 'jobs',
  summary: 'The attempts of a job, newest first',
  params: idParams,
  answers: {
    200: { description: 'All of them.', schema: z.object({ items: z.array(Attempt) }) },
  },
  problems: ['JE002'],
  handle: async ({ params: { id } }, { db }) => {
    const [, items] = await Promise.all([existingJob(db, id), attempts(db, id)])
    return { status: 200, body: { items } }
  },
})

const listEvents = endpoint({
  method: 'get',
  path: '/jobs/{id}/events',
  tag: 'jobs',
  summary: 'The history of a job, newest first',
  params: idParams,
  query: fields('query option', { limit, after: z.string().optional() }),
  answers: { 200: { description: 'A part of it.', schema: pageOf(Event) } },
  problems: ['JE002'],
  handle: async ({ params: { id }, query }, { db }) => {
    const after = query.after === undefined ? undefined : decodeCursor(query.after, isPlace)
    const [, events] = await Promise.all([
      existingJob(db, id),
      history(db, id, { limit: query.limit + 1, after }),
    ])
    const { items, next_cursor } = page(events, query.limit, ({ place }) => place)
    return { status: 200, body: { items: items.map(withoutPlace), next_cursor } }
  },
})

export const jobRoutes = [readOne, listAttempts, listEvents]

function withoutPlace<Row extends { place: unknown }>({ place: _, ...event }: Row) {
  return event
}

function isPlace(value: unknown): value is HistoryKey {
  return Array.isArray(value) && value.length === 3 && value.every(Number.isSafeInteger)
}
