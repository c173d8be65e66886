import { z } from '@hono/zod-openapi'
import type { Queryable } from '../../database/database.ts'
import { cancel, heartbeat, leaseOf, replay, reprioritize, resume } from '../../database/engine.ts'
import { FencepostError } from '../../errors.ts'
import { type Answer, endpoint } from '../endpoint.ts'
import { anyJson, fields, idParam, idParams } from '../fields.ts'
import type { Services } from '../services.ts'
import { existingJob } from './existing.ts'

const Moved = z.object({ id: z.int(), status: z.string() }).openapi('Moved')
const reason = z.string().optional().openapi({ description: 'Kept in the event.' })

const cancelled = {
  200: { description: 'It waited, and is cancelled.', schema: Moved },
  202: {
    description: 'It runs: its worker is told to stop it.',
    schema: Moved.extend({ cancel_requested: z.literal(true) }),
  },
}

async function cancelOne(id: number, why: string | undefined, { db }: Services): Promise<Answer> {
  const verdict = await cancel(db, id, why)
  return verdict === 'cancelled'
    ? { status: 200, body: { id, status: 'cancelled' } }
    : { status: 202, body: { id, status: 'running', cancel_requested: true } }
}

const cancelByPost = endpoint({
  method: 'post',
  path: '/jobs/{id}/cancel',
  tag: 'jobs',
  summary: 'Cancel a job that waits, or ask a running one to stop',
  params: idParams,
  body: fields('field', { reason }),
  bodyRequired: false,
  answers: cancelled,
  problems: ['JE002', 'JE004'],
  handle: ({ params, body }, services) => cancelOne(params.id, body.reason, services),
})

const cancelByDelete = endpoint({
  method: 'delete',
  path: '/jobs/{id}',
  tag: 'jobs',
  summary: 'The same as cancel',
  params: idParams,
  query: fields('query option', { reason }),
  answers: cancelled,
  problems: ['JE002', 'JE004'],
  handle: ({ params, query }, services) => cancelOne(params.id, query.reason, services),
})

const retry = endpoint({
  method: 'post',
  path: '/jobs/{id}/retry',
  tag: 'jobs',
  summary: 'Return a dead letter to work',
  description: 'Its attempts start again at 1; its history stays.',
  params: idParams,
  body: fields('field', {}),
  bodyRequired: false,
  answers: { 202: { description: 'It is pending.', schema: Moved } },
  problems: ['JE002', 'JE004'],
  handle: async ({ params: { id } }, { db }) => {
    await replay(db, id)
    return { status: 202, body: { id, status: 'pending' } }
  },
})

const wake = endpoint({
  method: 'post',
  path: '/jobs/{id}/resume',
  tag: 'jobs',
  summary: 'Bring a suspended job back to work',
  params: idParams,
  body: fields('field', {
    data: anyJson.optional().openapi({ description: 'What the next attempt finds.' }),
  }),
  bodyRequired: false,
  answers: { 202: { description: 'It is pending.', schema: Moved } },
  problems: ['JE002', 'JE004'],
  handle: async ({ params: { id }, body }, { db }) => {
    await resume(db, id, body.data)
    return { status: 202, body: { id, status: 'pending' } }
  },
})

const change = endpoint({
  method: 'patch',
  path: '/jobs/{id}',
  tag: 'jobs',
  summary: 'Give a waiting job another priority',
  params: idParams,
  body: fields('field', {
    priority: z.number().openapi({ type: 'integer', minimum: 0, maximum: 9 }),
  }),
  answers: {
    200: {
      description: 'It stands at the end of its new line.',
      schema: z.object({ id: z.int(), priority: z.int() }),
    },
  },
  problems: ['JE002', 'JE004'],
  handle: async ({ params: { id }, body: { priority } }, { db }) => {
    await reprioritize(db, id, priority)
    return { status: 200, body: { id, priority } }
  },
})

const beat = endpoint({
  method: 'post',
  path: '/jobs/{id}/heartbeat',
  tag: 'worker protocol',
  summary: 'Keep the lease of a running job, and its worker, alive',
  params: z.object({ id: idParam }),
  body: fields('field', {
    token: z.int().openapi({ description: 'As it was claimed.' }),
    worker: z
      .string()
      .optional()
      .openapi({ description: 'Default: the one that holds the lease.' }),
    worker_id: z.int().optional(),
  }),
  answers: {
    200: {
      description: 'The lease is alive.',
      schema: z.object({
        id: z.int(),
        token: z.int(),
        directive: z.enum(['cancel', 'timeout']).nullable().openapi({
          description: 'What the handler must hear: stop.',
        }),
        leased_until: z.iso.datetime().nullable(),
      }),
    },
  },
  problems: ['JE001', 'JE002', 'JE010'],
  handle: async ({ params: { id }, body: { token, worker, worker_id } }, { db }) => {
    const named = worker ?? worker_id
    const holder = named === undefined ? (await leaseOf(db, id))?.worker_id : worker_id
    if (named === undefined && holder === undefined) throw await lost(db, id, token)
    const beaten = await heartbeat(db, {
      worker: worker ?? '',
      worker_id: holder,
      job_ids: [id],
      tokens: [token],
    })
    const directive = beaten.find(({ job_id }) => job_id === id)?.directive ?? null
    if (directive === 'lost') throw await lost(db, id, token)
    const lease = await leaseOf(db, id)
    return {
      status: 200,
      body: { id, token, directive, leased_until: lease?.leased_until ?? null },
    }
  },
})

export const jobControlRoutes = [cancelByPost, cancelByDelete, retry, wake, change, beat]

/** JE001, or JE002 where there is no such job. */
async function lost(db: Queryable, id: number, token: number): Promise<FencepostError> {
  const { status } = await existingJob(db, id)
  return new FencepostError('JE001', `job ${id} is not leased under token ${token}`, {
    detail: `the job is ${status}`,
    hint: 'The lease was lost or the attempt has ended: stop working on it and write nothing more for it.',
  })
}
