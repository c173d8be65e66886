import { z } from '@hono/zod-openapi'
import { drainWorker, getWorker, leasesOf, workerPage } from '../../database/engine.ts'
import { FencepostError } from '../../errors.ts'
import { decodeCursor, isId, page } from '../cursor.ts'
import { endpoint } from '../endpoint.ts'
import { fields, idParams, limit, MAX_LIMIT } from '../fields.ts'
import { Lease, pageOf, Worker } from '../schemas.ts'

const list = endpoint({
  method: 'get',
  path: '/workers',
  tag: 'workers',
  summary: 'Worker processes, newest first',
  description: 'Each start of a process is a worker of its own.',
  query: fields('query option', {
    status: z.enum(['active', 'draining', 'lost', 'stopped']).optional(),
    limit,
    after: z.string().optional(),
  }),
  answers: { 200: { description: 'A part of the list.', schema: pageOf(Worker) } },
  handle: async ({ query: { status, limit: most, after } }, { db }) => {
    const before = after === undefined ? undefined : decodeCursor(after, isId)
    const rows = await workerPage(db, { status, limit: most + 1, before })
    return { status: 200, body: page(rows, most, ({ id }) => id) }
  },
})

const read = endpoint({
  method: 'get',
  path: '/workers/{id}',
  tag: 'workers',
  summary: 'One worker and what it holds',
  description: `At most ${MAX_LIMIT} of its leases; active_jobs says how many there are.`,
  params: idParams,
  answers: {
    200: { description: 'The worker.', schema: Worker.extend({ leases: z.array(Lease) }) },
  },
  problems: ['JE002'],
  handle: async ({ params: { id } }, { db }) => {
    const [worker, leases] = await Promise.all([getWorker(db, id), leasesOf(db, id, MAX_LIMIT)])
    if (worker === undefined) {
      throw new FencepostError('JE002', `worker ${id} does not exist`, {
        hint: 'Workers that ended long ago are forgotten. See /workers.',
      })
    }
    return { status: 200, body: { ...worker, leases } }
  },
})

const drain = endpoint({
  method: 'post',
  path: '/workers/{id}/drain',
  tag: 'workers',
  summary: 'Ask a worker to finish what it runs and to take nothing new',
  params: idParams,
  body: fields('field', {}),
  bodyRequired: false,
  answers: {
    202: {
      description: 'It hears of it with its next heartbeat, at the latest.',
      schema: z.object({ id: z.int(), status: z.literal('draining') }),
    },
  },
  problems: ['JE002', 'JE004'],
  handle: async ({ params: { id } }, { db }) => {
    await drainWorker(db, id)
    return { status: 202, body: { id, status: 'draining' } }
  },
})

export const workerRoutes = [list, read, drain]
