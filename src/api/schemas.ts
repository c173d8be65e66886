import { z } from '@hono/zod-openapi'
import { anyJson, interval } from './fields.ts'

// What answers look like, for the reference. The rows come from the stable views as they are, which may
// have more columns than these.

const id = z.int().openapi({ format: 'int64', example: 42 })
const time = z.iso.datetime().openapi({ example: '2030-01-01T00:00:00.000Z' })
const text = z.string()
const count = z.int()

/** A row of `fencepost.jobs`. */
export const Job = z
  .object({
    id,
    type: text.openapi({ example: 'email.send' }),
    status: z.enum([
      'pending',
      'running',
      'waiting',
      'completed',
      'dead_letter',
      'cancelled',
      'discarded',
    ]),
    attempts: count.openapi({ description: 'Attempts that counted so far.' }),
    max_attempts: count,
    priority: count.openapi({ description: '0 to 9, higher first.' }),
    payload: anyJson,
    result: anyJson,
    last_error: text.nullable(),
    available_at: time.nullable(),
    leased_until: time.nullable(),
    worker: text.nullable(),
    idempotency_key: text.nullable(),
    tenant: text,
    created_at: time,
    updated_at: time,
  })
  .openapi('Job')

/** A row of `fencepost.attempts`. */
export const Attempt = z
  .object({
    job_id: id,
    attempt: count.openapi({ description: 'From 1; replay starts again at 1.' }),
    token: count.openapi({ description: 'Fences every write of this attempt.' }),
    worker: text.nullable(),
    outcome: z
      .enum([
        'completed',
        'failed',
        'timed_out',
        'lease_expired',
        'released',
        'cancelled',
        'suspended',
      ])
      .nullable()
      .openapi({ description: 'Null while it runs.' }),
    error: text.nullable(),
    started_at: time,
    finished_at: time.nullable(),
  })
  .openapi('Attempt')

/** A row of `fencepost.job_events`. */
export const Event = z
  .object({
    id,
    job_id: id,
    kind: text.openapi({ example: 'job.completed' }),
    attempt: count.nullable(),
    worker: text.nullable(),
    data: anyJson,
    created_at: time,
  })
  .openapi('Event')

/** A row of `fencepost.leases`. */
export const Lease = z
  .object({
    job_id: id,
    worker_id: count,
    worker: text,
    attempt: count,
    token: count,
    started_at: time,
    leased_until: time.nullable(),
  })
  .openapi('Lease')

/** A row of `fencepost.dead_letter`. */
export const DeadLetter = z
  .object({
    job_id: id,
    type: text,
    final_error: text,
    attempts: count,
    failed_at: time,
  })
  .openapi('DeadLetter')

/** A row of `fencepost.workers`. */
export const Worker = z
  .object({
    id: count,
    name: text,
    hostname: text,
    status: z.enum(['active', 'draining', 'lost', 'stopped']),
    types: z.array(text),
    last_heartbeat: time,
    active_jobs: count,
  })
  .openapi('Worker')

/** A row of `fencepost.types`. */
export const Type = z
  .object({
    type: text,
    paused: z.boolean(),
    max_attempts: count,
    timeout: interval.nullable(),
    max_running: count.nullable(),
  })
  .openapi('Type')

/** A problem document. */
export const ProblemDocument = z
  .object({
    type: text.openapi({ example: '/problems/JE003' }),
    title: text.openapi({ example: 'Invalid argument' }),
    status: count.openapi({ example: 400 }),
    code: text.openapi({ example: 'JE003', description: 'The SQLSTATE.' }),
    detail: text.openapi({ example: 'the priority must be a whole number from 0 to 9' }),
    hint: text.optional().openapi({ example: 'Higher is claimed first; the default is 5.' }),
    pointer: text
      .optional()
      .openapi({ example: '#/1', description: 'What was refused, in the body.' }),
  })
  .openapi('Problem')

/** A part of a list. */
export function pageOf(items: z.ZodType) {
  return z.object({
    items: z.array(items),
    next_cursor: text
      .nullable()
      .openapi({ description: 'Send it as `after` to go on; null at the end of the list.' }),
  })
}
