import { z } from '@hono/zod-openapi'
import { configureType, getType, pauseType, resumeType, types } from '../../database/engine.ts'
import { FencepostError } from '../../errors.ts'
import { endpoint } from '../endpoint.ts'
import { fields, interval } from '../fields.ts'
import { Type } from '../schemas.ts'

const whole = (least: number, description: string) =>
  z.number().optional().openapi({ type: 'integer', minimum: least, description })
const duration = (description: string) => interval.optional().openapi({ description })

const list = endpoint({
  method: 'get',
  path: '/types',
  tag: 'types',
  summary: 'The types of work and their settings',
  answers: { 200: { description: 'By name.', schema: z.object({ items: z.array(Type) }) } },
  handle: async (_, { db }) => ({ status: 200, body: { items: await types(db) } }),
})

const change = endpoint({
  method: 'patch',
  path: '/types/{type}',
  tag: 'types',
  summary: 'Change settings of a type',
  description:
    'What is set here stays, whatever code declares, until it is given back with reset. What is left ' +
    'out stays as it is; 0 is no limit. A type that does not exist yet is made.',
  params: z.object({ type: z.string().openapi({ example: 'email.send' }) }),
  body: fields('setting', {
    paused: z.boolean().optional().openapi({ description: 'True stops claims; enqueues go on.' }),
    reason: z.string().optional().openapi({ description: 'Why it is paused or resumed.' }),
    accept: z.boolean().optional().openapi({ description: 'False refuses enqueues.' }),
    max_running: whole(0, 'How many may run at once, over all workers.'),
    max_pending: whole(0, 'How many may wait before enqueues are refused.'),
    max_attempts: whole(1, 'Attempts that count before a job is dead-lettered.'),
    timeout: duration('The limit of one attempt.'),
    backoff_base: duration('The wait before the second attempt.'),
    backoff_factor: z.number().optional().openapi({ minimum: 1, maximum: 100 }),
    backoff_cap: duration('The longest wait.'),
    backoff_jitter: z.number().optional().openapi({ minimum: 0, maximum: 1 }),
    max_payload_bytes: whole(2, 'The largest payload or result.'),
    payload_check: z.string().optional().openapi({
      description: 'An SQL/JSON path predicate that payloads must satisfy; empty for none.',
      example: '$.to like_regex "@"',
    }),
    publish_enqueued: z.boolean().optional(),
    publish_started: z.boolean().optional(),
    dead_letter_alert: whole(1, 'Dead letters at which the alert fires.'),
    keep_finished: duration('How long finished jobs are kept.'),
    reset: z.array(z.string()).optional().openapi({
      description: 'Settings that are given back to code.',
    }),
  }),
  answers: { 200: { description: 'The type as it is now.', schema: Type } },
  handle: async ({ params: { type }, body: { paused, reason, ...settings } }, { db }) => {
    const row = await db.transaction(async (tx) => {
      await configureType(tx, type, settings)
      if (paused === true) await pauseType(tx, type, reason)
      if (paused === false) await resumeType(tx, type, reason)
      return getType(tx, type)
    })
    if (row === undefined) throw missing(type)
    return { status: 200, body: row }
  },
})

const read = endpoint({
  method: 'get',
  path: '/types/{type}',
  tag: 'types',
  summary: 'One type and its settings',
  params: z.object({ type: z.string().openapi({ example: 'email.send' }) }),
  answers: { 200: { description: 'The type.', schema: Type } },
  problems: ['JE002'],
  handle: async ({ params: { type } }, { db }) => {
    const row = await getType(db, type)
    if (row === undefined) throw missing(type)
    return { status: 200, body: row }
  },
})

export const typeRoutes = [list, read, change]

function missing(type: string): FencepostError {
  return new FencepostError('JE002', `the type ${type.slice(0, 200)} does not exist`, {
    hint: 'A type begins with its first job, its first worker or its first setting.',
  })
}
