import { z } from '@hono/zod-openapi'
import type { Queryable } from '../../database/database.ts'
import {
  cancelRun,
  migrateRun,
  pauseRun,
  restartRun,
  resumeRun,
  retryRun,
  signalRun,
} from '../../database/engine.ts'
import { type Answer, endpoint } from '../endpoint.ts'
import { anyJson, fields, idParam, idParams } from '../fields.ts'
import type { Services } from '../services.ts'
import { Run } from '../workflow-schemas.ts'
import { existingRun } from './existing.ts'

const reason = z.string().optional().openapi({ description: 'Kept with the run and its event.' })

/** Does something with a run and answers how it stands then. */
async function moved(
  { db }: Services,
  id: number,
  move: (tx: Queryable) => Promise<unknown>,
): Promise<Answer> {
  const run = await db.transaction(async (tx) => {
    await move(tx)
    return existingRun(tx, id)
  })
  return { status: 200, body: run }
}

const cancel = endpoint({
  method: 'post',
  path: '/runs/{id}/cancel',
  tag: 'runs',
  summary: 'Cancel a run and its child runs',
  description: 'Handlers that run are told to stop. Cancelling twice changes nothing.',
  params: idParams,
  body: fields('field', { reason }),
  bodyRequired: false,
  answers: { 200: { description: 'It is cancelled.', schema: Run } },
  problems: ['JE002', 'JE004'],
  handle: ({ params: { id }, body }, services) =>
    moved(services, id, (tx) => cancelRun(tx, id, body.reason)),
})

const pause = endpoint({
  method: 'post',
  path: '/runs/{id}/pause',
  tag: 'runs',
  summary: 'Hold a run and its child runs',
  description: 'What runs now finishes; nothing new starts. Pausing twice changes nothing.',
  params: idParams,
  body: fields('field', { reason }),
  bodyRequired: false,
  answers: { 200: { description: 'It is held.', schema: Run } },
  problems: ['JE002', 'JE004'],
  handle: ({ params: { id }, body }, services) =>
    moved(services, id, (tx) => pauseRun(tx, id, body.reason)),
})

const resume = endpoint({
  method: 'post',
  path: '/runs/{id}/resume',
  tag: 'runs',
  summary: 'Let a held run go on',
  params: idParams,
  body: fields('field', {}),
  bodyRequired: false,
  answers: { 200: { description: 'It goes on.', schema: Run } },
  problems: ['JE002', 'JE004'],
  handle: ({ params: { id } }, services) => moved(services, id, (tx) => resumeRun(tx, id)),
})

const retry = endpoint({
  method: 'post',
  path: '/runs/{id}/retry',
  tag: 'runs',
  summary: 'Try the failed tasks of a run again',
  params: idParams,
  body: fields('field', {}),
  bodyRequired: false,
  answers: {
    202: {
      description: 'They are tried again.',
      schema: z.object({
        id: z.int(),
        replayed: z.int().openapi({ description: 'How many tasks are tried again.' }),
      }),
    },
  },
  problems: ['JE002', 'JE004'],
  handle: async ({ params: { id } }, { db }) => ({
    status: 202,
    body: { id, replayed: await retryRun(db, id) },
  }),
})

const restart = endpoint({
  method: 'post',
  path: '/runs/{id}/restart',
  tag: 'runs',
  summary: 'Begin a new run that takes over what this one has done',
  description:
    'Outputs of completed tasks are taken over, but for from_task, tasks that were undone, and what comes ' +
    'after these. The old run must have ended, and stays as it is.',
  params: idParams,
  body: fields('field', {
    from_task: z.string().optional().openapi({
      description: 'The first task that is done again. Default: nothing that completed is.',
      example: 'charge',
    }),
  }),
  bodyRequired: false,
  answers: {
    202: {
      description: 'The new run.',
      schema: z.object({ id: z.int(), restarted_from: z.int() }),
    },
  },
  problems: ['JE002', 'JE004'],
  handle: async ({ params: { id }, body: { from_task } }, { db }) => {
    const started = await restartRun(db, id, from_task)
    return {
      status: 202,
      body: { id: started, restarted_from: id },
      headers: { location: `/runs/${started}` },
    }
  },
})

const migrate = endpoint({
  method: 'post',
  path: '/runs/{id}/migrate',
  tag: 'runs',
  summary: 'Move a run to another version of its workflow, or tell what would change',
  description: 'Tasks that have begun must exist there with the same kind and type.',
  params: idParams,
  body: fields('field', {
    to_version: z.number().openapi({ type: 'integer', minimum: 1 }),
    dry_run: z
      .boolean()
      .optional()
      .openapi({ default: false, description: 'True only tells what would change.' }),
  }),
  answers: {
    200: {
      description: 'The tasks that differ.',
      schema: z.object({
        items: z.array(
          z.object({ task: z.string(), change: z.enum(['added', 'dropped', 'changed']) }),
        ),
        dry_run: z.boolean(),
      }),
    },
  },
  problems: ['JE002', 'JE004'],
  handle: async ({ params: { id }, body: { to_version, dry_run = false } }, { db }) => ({
    status: 200,
    body: { items: await migrateRun(db, id, to_version, dry_run), dry_run },
  }),
})

const signal = endpoint({
  method: 'post',
  path: '/runs/{id}/signals/{name}',
  tag: 'runs',
  summary: 'Send a signal to a run',
  description: 'The task that waits for it takes it. One that nobody waits for yet is kept.',
  params: z.object({ id: idParam, name: z.string().openapi({ example: 'payment.settled' }) }),
  body: fields('field', {
    payload: anyJson.optional().openapi({ description: 'Any JSON: the output of the task.' }),
  }),
  bodyRequired: false,
  answers: {
    202: {
      description: 'It is stored.',
      schema: z.object({ id: z.int(), run_id: z.int(), name: z.string() }),
    },
  },
  problems: ['JE002', 'JE004', 'JE006'],
  handle: async ({ params: { id, name }, body: { payload } }, { db }) => ({
    status: 202,
    body: { id: await signalRun(db, id, name, payload), run_id: id, name },
  }),
})

export const runControlRoutes = [cancel, pause, resume, retry, restart, migrate, signal]
