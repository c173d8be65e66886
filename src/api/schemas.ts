import { z } from '@hono/zod-openapi'
import { anyJson, interval } from './fields.ts'

// What answers look like, for the reference. The rows come from the stable views as they are; a later
// version may add columns.

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
    started_at: time.nullable().openapi({ description: 'Of the present or final attempt.' }),
    finished_at: time.nullable(),
    progress: anyJson.openapi({ description: 'What its handler last said of its progress.' }),
  })
  .openapi('Job')

/** The rest of a row of `fencepost.jobs`, which lists leave out. */
export const jobDetails = {
  headers: anyJson,
  timeout: interval.nullable(),
  token: count.openapi({ description: 'Of its last claim; 0 before the first.' }),
  waits_for: text.nullable(),
  run_id: id.nullable(),
  task_id: id.nullable(),
}

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
    ready_at: time.openapi({ description: 'Since when the job could have been claimed.' }),
    details: anyJson.openapi({ description: 'What else the worker said of the error.' }),
    result: anyJson,
    worker_id: count,
  })
  .openapi('Attempt')

/** A row of `fencepost.job_events`. */
export const Event = z
  .object({
    id: id.nullable().openapi({
      description: 'Null for an enqueue or a start that is not stored as an event.',
    }),
    job_id: id,
    kind: text.openapi({ example: 'job.completed' }),
    attempt: count.nullable(),
    worker: text.nullable(),
    data: anyJson,
    created_at: time,
    token: count.nullable(),
    outcome: text.nullable(),
    actor: text.nullable().openapi({ description: 'Who did it, for what people do.' }),
    tenant: text,
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
    leased_until: time.nullable().openapi({
      description: 'Before this it cannot be taken back; every heartbeat moves it on.',
    }),
    deadline: time.nullable().openapi({ description: 'When the attempt times out.' }),
    type: text,
    priority: count,
    tenant: text,
    ready_at: time,
    cancel_requested_at: time.nullable(),
    cancel_reason: text.nullable(),
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
    priority: count,
    tenant: text,
    details: anyJson.openapi({ description: 'Name, stack and cause of the error.' }),
    payload: anyJson,
    idempotency_key: text.nullable(),
    created_at: time,
    token: count,
    run_id: id.nullable(),
    task_id: id.nullable(),
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
    slot: count.openapi({ description: 'Tells processes of one name on one host apart.' }),
    ttl: interval,
    started_at: time,
    suspect_at: time.nullable().openapi({ description: 'When its silence was noticed.' }),
    ended_at: time.nullable(),
    info: anyJson.openapi({ description: 'What it tells of itself.' }),
    tenant: text,
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
    max_pending: count.nullable(),
    accept: z.boolean(),
    backoff_base: interval,
    backoff_factor: z.number(),
    backoff_cap: interval,
    backoff_jitter: z.number(),
    max_payload_bytes: count,
    payload_check: text.nullable(),
    publish_enqueued: z.boolean(),
    publish_started: z.boolean(),
    dead_letter_alert: count,
    keep_finished: interval,
    overridden: z.array(text).openapi({ description: 'Settings that an operator has set.' }),
    created_at: time,
    updated_at: time,
    type_id: count,
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
