import { z } from '@hono/zod-openapi'
import { claim, exchange, heartbeat, registerWorker, stopWorker } from '../../database/engine.ts'
import { encodeJson } from '../../database/json.ts'
import { endpoint } from '../endpoint.ts'
import { anyJson, fields, interval } from '../fields.ts'
import { AttemptRef, Completion, Failure } from './attempt-schemas.ts'

// The worker protocol for workers without access to the database. Each route is one SQL function, whose
// comment tells its promises; a job and its token fence every write.

const types = z.array(z.string()).openapi({ example: ['email.send'] })
const max = z.number().optional().openapi({ type: 'integer', minimum: 0, maximum: 10_000 })
const ttl = interval.optional().openapi({
  description: 'How long the worker may be silent before its jobs are taken back.',
  example: '30 seconds',
})

const ClaimedJob = z
  .object({
    job_id: z.int(),
    token: z.int(),
    type: z.string(),
    attempt: z.int(),
    max_attempts: z.int(),
    payload: anyJson,
    headers: anyJson,
    priority: z.int(),
    tenant: z.string(),
    idempotency_key: z.string().nullable(),
    created_at: z.iso.datetime(),
    deadline: z.iso.datetime().nullable().openapi({ description: 'When the attempt times out.' }),
    run_id: z.int().nullable().openapi({ description: 'Its workflow run; null outside of one.' }),
    task_id: z.int().nullable().openapi({ description: 'Its task in that run.' }),
  })
  .openapi('ClaimedJob')

const Directive = z
  .object({
    job_id: z.int().nullable().openapi({ description: 'Null when it concerns the worker.' }),
    directive: z.enum(['lost', 'cancel', 'timeout', 'drain']),
  })
  .openapi('Directive')

const register = endpoint({
  method: 'post',
  path: '/worker/register',
  tag: 'worker protocol',
  summary: 'Register a worker process',
  description: 'Each start is a new worker_id; an older one of this name, host and slot is lost.',
  body: fields('field', {
    name: z.string().openapi({ example: 'mailer' }),
    hostname: z.string().optional(),
    slot: z.number().optional().openapi({ type: 'integer' }),
    types: types.optional(),
    ttl,
    protocol: z.number().optional().openapi({ type: 'integer', default: 1 }),
    info: z.record(z.string(), z.unknown()).optional(),
    tenant: z.string().optional(),
  }),
  answers: {
    201: { description: 'Registered.', schema: z.object({ worker_id: z.int() }) },
  },
  problems: ['JE011'],
  handle: async ({ body }, { db }) => ({
    status: 201,
    body: { worker_id: await registerWorker(db, body) },
  }),
})

const claimJobs = endpoint({
  method: 'post',
  path: '/worker/claim',
  tag: 'worker protocol',
  summary: 'Take jobs to work on',
  description: 'Never waits; an unknown worker is registered. No job means no work.',
  body: fields('field', { worker: z.string(), types, max, ttl }),
  answers: {
    200: { description: 'The jobs.', schema: z.object({ jobs: z.array(ClaimedJob) }) },
  },
  handle: async ({ body }, { db }) => ({
    status: 200,
    body: { jobs: await claim(db, body) },
  }),
})

const exchangeResults = endpoint({
  method: 'post',
  path: '/worker/exchange',
  tag: 'worker protocol',
  summary: 'Results in, new jobs out, in one round',
  description:
    'A heartbeat if one is due, the results settled, jobs claimed. Each directive says what to do: ' +
    'run a job; lost, cancel or timeout a handler; drain; or what became of a failed attempt.',
  body: fields('field', {
    worker_id: z.int(),
    completed: z.array(Completion).optional(),
    failed: z.array(Failure).optional(),
    running: z.array(AttemptRef).optional(),
    types: types.optional(),
    max,
  }),
  answers: {
    200: {
      description: 'What to do.',
      schema: z.object({
        directives: z.array(z.looseObject({ directive: z.string(), job_id: z.int().nullable() })),
      }),
    },
  },
  problems: ['JE006', 'JE010'],
  handle: async ({ body }, { db }) => {
    const { worker_id, completed = [], failed = [], running = [], types: asked, max: most } = body
    const directives = await exchange(db, {
      worker_id,
      completed: {
        ...pairs(completed),
        results: completed.map(({ result }, index) => text(result, `completed.${index}.result`)),
      },
      failed: {
        ...pairs(failed),
        errors: failed.map(({ error }) => error ?? null),
        details: failed.map(({ details }, index) => text(details, `failed.${index}.details`)),
        retry_in: failed.map(({ retry_in }) => retry_in ?? null),
        permanent: failed.map(({ permanent }) => permanent ?? false),
      },
      running: pairs(running),
      types: asked,
      max: most,
    })
    return { status: 200, body: { directives: directives.map(withoutNulls) } }
  },
})

const beat = endpoint({
  method: 'post',
  path: '/worker/heartbeat',
  tag: 'worker protocol',
  summary: 'A sign of life',
  description: 'At least every third of the ttl. Answers only what needs attention.',
  body: fields('field', {
    worker: z.string().optional(),
    worker_id: z.int().optional(),
    running: z.array(AttemptRef).optional(),
  }),
  answers: {
    200: { description: 'What to do.', schema: z.object({ directives: z.array(Directive) }) },
  },
  problems: ['JE010'],
  handle: async ({ body: { worker = '', worker_id, running = [] } }, { db }) => ({
    status: 200,
    body: { directives: await heartbeat(db, { worker, worker_id, ...pairs(running) }) },
  }),
})

const stop = endpoint({
  method: 'post',
  path: '/worker/stop',
  tag: 'worker protocol',
  summary: 'Say goodbye',
  description: 'Jobs that the worker still holds are taken back.',
  body: fields('field', { worker_id: z.int() }),
  answers: { 204: { description: 'Stopped.' } },
  problems: ['JE002'],
  handle: async ({ body: { worker_id } }, { db }) => {
    await stopWorker(db, worker_id)
    return { status: 204 }
  },
})

export const workerProtocolRoutes = [register, claimJobs, exchangeResults, beat, stop]

function pairs(list: readonly { readonly job_id: number; readonly token: number }[]) {
  return { job_ids: list.map(({ job_id }) => job_id), tokens: list.map(({ token }) => token) }
}

function text(value: unknown, where: string): string | null {
  return value === undefined ? null : encodeJson(value, where)
}

/** A directive without the columns that only a claimed job has. */
function withoutNulls<Row extends { directive: string; job_id: unknown }>(row: Row): unknown {
  if (row.directive === 'run') return row
  return Object.fromEntries(
    Object.entries(row).filter(([name, value]) => value !== null || name === 'job_id'),
  )
}
