import { z } from '@hono/zod-openapi'
import {
  explainTask,
  listApprovals,
  listRuns,
  listTasks,
  type RunFilter,
  signals,
} from '../../database/engine.ts'
import { boundedPage, decodeCursor, isId } from '../cursor.ts'
import { endpoint } from '../endpoint.ts'
import { fields, idParam, idParams, limit, time } from '../fields.ts'
import { pageOf } from '../schemas.ts'
import type { Services } from '../services.ts'
import { Approval, ListedRun, ListedTask, Run, Signal } from '../workflow-schemas.ts'
import { existingRun, existingWorkflow } from './existing.ts'
import { nameParams } from './workflows.ts'

/** How many approvals and signals a run's own page shows. */
const NEWEST = 50

const filters = {
  version: z
    .string()
    .optional()
    .openapi({ type: 'integer', description: 'Of the given workflow.' }),
  status: z.string().optional().openapi({ enum: ListedRun.shape.status.options }),
  tag: z.string().optional().openapi({ description: 'That has this tag.' }),
  tenant: z.string().optional(),
  idempotency_key: z.string().optional().openapi({ description: 'Of the given workflow.' }),
  created_after: time.optional(),
  created_before: time.optional(),
  limit,
  after: z.string().optional().openapi({ description: 'next_cursor of the page before.' }),
}
const bounded =
  'One answer looks at no more than 10,000 runs: an answer that is not full may still have a ' +
  'next_cursor, and the list goes on there.'

const list = endpoint({
  method: 'get',
  path: '/runs',
  tag: 'runs',
  summary: 'Runs that match, newest first',
  description: bounded,
  query: fields('query option', { workflow: z.string().optional(), ...filters }),
  answers: { 200: { description: 'A part of the list.', schema: pageOf(ListedRun) } },
  handle: async ({ query }, { db }) => ({ status: 200, body: await runPage(db, query) }),
})

const listOfWorkflow = endpoint({
  method: 'get',
  path: '/workflows/{name}/runs',
  tag: 'runs',
  summary: 'Runs of a workflow that match, newest first',
  description: bounded,
  params: nameParams,
  query: fields('query option', filters),
  answers: { 200: { description: 'A part of the list.', schema: pageOf(ListedRun) } },
  problems: ['JE002'],
  handle: async ({ params: { name: workflow }, query }, { db }) => {
    const [body] = await Promise.all([
      runPage(db, { ...query, workflow }),
      existingWorkflow(db, workflow),
    ])
    return { status: 200, body }
  },
})

type RunQuery = RunFilter & { readonly limit: number; readonly after?: string | undefined }

async function runPage(db: Services['db'], { limit: max, after, ...filter }: RunQuery) {
  const from = after === undefined ? undefined : decodeCursor(after, isId)
  return boundedPage(await listRuns(db, filter, { max, after: from }), max)
}

const read = endpoint({
  method: 'get',
  path: '/runs/{id}',
  tag: 'runs',
  summary: 'Where a run stands',
  description: `With the decisions that it waits for and the signals that it received, ${NEWEST} at most.`,
  params: idParams,
  answers: {
    200: {
      description: 'The run.',
      schema: Run.extend({
        pending_approvals: z.array(Approval),
        signals: z.array(Signal),
      }),
    },
  },
  problems: ['JE002'],
  handle: async ({ params: { id } }, { db }) => {
    const [run, asked, received] = await Promise.all([
      existingRun(db, id),
      listApprovals(db, { run_id: id, status: 'pending' }, { max: NEWEST }),
      signals(db, id, { max: NEWEST }),
    ])
    const pending_approvals = boundedPage(asked, NEWEST).items
    return { status: 200, body: { ...run, pending_approvals, signals: received } }
  },
})

const tasks = endpoint({
  method: 'get',
  path: '/runs/{id}/tasks',
  tag: 'runs',
  summary: 'The tasks of a run, parents before children',
  description:
    'Or the items of a map, by its task. With a status one answer looks at no more than 10,000 of ' +
    'them: an answer that is not full may still have a next_cursor.',
  params: idParams,
  query: fields('query option', {
    status: z.string().optional().openapi({ enum: ListedTask.shape.status.options }),
    parent_task_id: z.string().optional().openapi({
      type: 'integer',
      description: 'The map whose items are listed, or the task whose compensation is.',
    }),
    limit,
    after: z.string().optional().openapi({ description: 'next_cursor of the page before.' }),
  }),
  answers: { 200: { description: 'A part of them.', schema: pageOf(ListedTask) } },
  problems: ['JE002'],
  handle: async ({ params: { id }, query: { limit: max, after, ...filter } }, { db }) => {
    const from = after === undefined ? undefined : decodeCursor(after, isId)
    const { items, next_cursor } = boundedPage(
      await listTasks(db, id, filter, { max, after: from }),
      max,
    )
    return {
      status: 200,
      body: { items: items.map((task) => ({ ...task, run_id: id })), next_cursor },
    }
  },
})

const TaskReason = z
  .object({
    reason: z.string().openapi({ example: 'it waits for charge' }),
    detail: z.string(),
    release: z.string().nullable().openapi({ description: 'The SQL that would let it go on.' }),
  })
  .openapi('TaskReason')

const explain = endpoint({
  method: 'get',
  path: '/runs/{id}/tasks/{name}/explain',
  tag: 'runs',
  summary: 'Why a task is not running, or where it is',
  params: z.object({ id: idParam, name: z.string().openapi({ example: 'charge' }) }),
  answers: {
    200: {
      description: 'Each reason that holds; none when it runs.',
      schema: z.object({ items: z.array(TaskReason) }),
    },
  },
  problems: ['JE002'],
  handle: async ({ params: { id, name } }, { db }) => ({
    status: 200,
    body: { items: await explainTask(db, id, name) },
  }),
})

export const runRoutes = [list, listOfWorkflow, read, tasks, explain]
