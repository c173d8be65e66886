import { z } from '@hono/zod-openapi'
import { attempts, replayTask, requestApproval } from '../../database/engine.ts'
import { endpoint } from '../endpoint.ts'
import { fields, idParams, interval } from '../fields.ts'
import { Attempt } from '../schemas.ts'
import { Task } from '../workflow-schemas.ts'
import { existingTask } from './existing.ts'

const read = endpoint({
  method: 'get',
  path: '/tasks/{id}',
  tag: 'tasks',
  summary: 'Where a task stands',
  params: idParams,
  answers: { 200: { description: 'The task.', schema: Task } },
  problems: ['JE002'],
  handle: async ({ params: { id } }, { db }) => ({ status: 200, body: await existingTask(db, id) }),
})

const listAttempts = endpoint({
  method: 'get',
  path: '/tasks/{id}/attempts',
  tag: 'tasks',
  summary: 'The attempts of a task’s job, newest first',
  params: idParams,
  answers: {
    200: {
      description: 'All of them; none for a task that has no job.',
      schema: z.object({ items: z.array(Attempt) }),
    },
  },
  problems: ['JE002'],
  handle: async ({ params: { id } }, { db }) => {
    const { job_id } = await existingTask(db, id)
    return { status: 200, body: { items: job_id === null ? [] : await attempts(db, job_id) } }
  },
})

const gate = endpoint({
  method: 'post',
  path: '/tasks/{id}/approval',
  tag: 'tasks',
  summary: 'Put a gate before a task that has not begun',
  description: 'It waits until somebody approves. A rejected or expired gate fails it.',
  params: idParams,
  body: fields('field', {
    reason: z.string().optional().openapi({ description: 'Why it is asked for.' }),
    expires_after: interval.optional().openapi({ description: 'Default: without an end.' }),
  }),
  bodyRequired: false,
  answers: {
    202: {
      description: 'The approval that was asked for.',
      schema: z.object({ id: z.int(), task_id: z.int() }),
    },
  },
  problems: ['JE002', 'JE004'],
  handle: async ({ params: { id }, body }, { db }) => {
    const approval = await requestApproval(db, id, body)
    return {
      status: 202,
      body: { id: approval, task_id: id },
      headers: { location: `/approvals/${approval}` },
    }
  },
})

const replay = endpoint({
  method: 'post',
  path: '/tasks/{id}/replay',
  tag: 'tasks',
  summary: 'Try a failed task again',
  description: 'Its run goes on when it completes. For a map, its failed items are tried again.',
  params: idParams,
  body: fields('field', {}),
  bodyRequired: false,
  answers: { 202: { description: 'The task as it stands then.', schema: Task } },
  problems: ['JE002', 'JE004'],
  handle: async ({ params: { id } }, { db }) => {
    const task = await db.transaction(async (tx) => {
      await replayTask(tx, id)
      return existingTask(tx, id)
    })
    return { status: 202, body: task }
  },
})

export const taskRoutes = [read, listAttempts, gate, replay]
