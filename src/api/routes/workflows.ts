import { z } from '@hono/zod-openapi'
import {
  configureWorkflow,
  getWorkflowVersion,
  publishWorkflow,
  workflowDiff,
  workflows,
  workflowVersions,
} from '../../database/engine.ts'
import { FencepostError } from '../../errors.ts'
import { decodeCursor, isId, page } from '../cursor.ts'
import { endpoint } from '../endpoint.ts'
import { anyJson, fields, idParam, interval, limit } from '../fields.ts'
import { pageOf } from '../schemas.ts'
import { Definition, Version, Workflow } from '../workflow-schemas.ts'
import { existingWorkflow } from './existing.ts'

/** The parameter `{name}` of a path. */
export const nameParams = z.object({ name: z.string().openapi({ example: 'order.fulfil' }) })

const publish = endpoint({
  method: 'post',
  path: '/workflows',
  tag: 'workflows',
  summary: 'Publish a definition',
  description:
    'As the next version, which never changes afterwards. A definition equal to a published one ' +
    'answers with the version that has it. A refusal points at the place in the definition.',
  body: fields('field', {
    name: z.string().openapi({ example: 'order.fulfil' }),
    definition: Definition,
  }),
  answers: {
    200: {
      description: 'The version that has this definition.',
      schema: z.object({ workflow: z.string(), version: z.int() }),
    },
  },
  problems: ['JE008'],
  handle: async ({ body: { name, definition } }, { db }) => {
    const version = await publishWorkflow(db, name, definition)
    return {
      status: 200,
      body: { workflow: name, version },
      headers: { location: `/workflows/${encodeURIComponent(name)}/versions/${version}` },
    }
  },
})

const list = endpoint({
  method: 'get',
  path: '/workflows',
  tag: 'workflows',
  summary: 'Workflows by name',
  query: fields('query option', { limit, after: z.string().optional() }),
  answers: { 200: { description: 'A part of the list.', schema: pageOf(Workflow) } },
  handle: async ({ query: { limit: most, after } }, { db }) => {
    const behind = after === undefined ? undefined : decodeCursor(after, isName)
    const rows = await workflows(db, { limit: most + 1, after: behind })
    return { status: 200, body: page(rows, most, ({ name }) => name) }
  },
})

const read = endpoint({
  method: 'get',
  path: '/workflows/{name}',
  tag: 'workflows',
  summary: 'One workflow, with the definition of its latest version',
  params: nameParams,
  answers: {
    200: { description: 'The workflow.', schema: Workflow.extend({ definition: Definition }) },
  },
  problems: ['JE002'],
  handle: async ({ params: { name } }, { db }) => {
    const [workflow, latest] = await Promise.all([
      existingWorkflow(db, name),
      getWorkflowVersion(db, name),
    ])
    return { status: 200, body: { ...workflow, definition: latest?.definition } }
  },
})

const change = endpoint({
  method: 'patch',
  path: '/workflows/{name}',
  tag: 'workflows',
  summary: 'Change settings of a workflow',
  description: 'For all its versions. What is left out stays as it is.',
  params: nameParams,
  body: fields('setting', {
    keep_finished: interval.optional().openapi({
      description:
        'How long finished runs are kept. A run that failed is kept until it is retried or cancelled.',
    }),
  }),
  answers: { 200: { description: 'The workflow as it is now.', schema: Workflow } },
  problems: ['JE002'],
  handle: async ({ params: { name }, body }, { db }) => {
    await configureWorkflow(db, name, body)
    return { status: 200, body: await existingWorkflow(db, name) }
  },
})

const listVersions = endpoint({
  method: 'get',
  path: '/workflows/{name}/versions',
  tag: 'workflows',
  summary: 'The versions of a workflow, newest first',
  params: nameParams,
  query: fields('query option', { limit, after: z.string().optional() }),
  answers: { 200: { description: 'A part of the list.', schema: pageOf(Version) } },
  problems: ['JE002'],
  handle: async ({ params: { name }, query: { limit: most, after } }, { db }) => {
    const before = after === undefined ? undefined : decodeCursor(after, isId)
    const [, rows] = await Promise.all([
      existingWorkflow(db, name),
      workflowVersions(db, name, { limit: most + 1, before }),
    ])
    return { status: 200, body: page(rows, most, ({ version }) => version) }
  },
})

const readVersion = endpoint({
  method: 'get',
  path: '/workflows/{name}/versions/{version}',
  tag: 'workflows',
  summary: 'One version with its definition',
  params: nameParams.extend({ version: idParam }),
  answers: {
    200: { description: 'The version.', schema: Version.extend({ definition: Definition }) },
  },
  problems: ['JE002'],
  handle: async ({ params: { name, version } }, { db }) => {
    const found = await getWorkflowVersion(db, name, version)
    if (found !== undefined) return { status: 200, body: found }
    const { latest_version } = await existingWorkflow(db, name)
    throw new FencepostError('JE002', `workflow ${name} has no version ${version}`, {
      detail: `received version = ${version}`,
      hint: `Its latest is ${latest_version}.`,
    })
  },
})

const Difference = z.object({
  task: z.string().nullable().openapi({ description: 'Null for a key of the workflow itself.' }),
  key: z.string(),
  before: anyJson,
  after: anyJson,
})

const compare = endpoint({
  method: 'get',
  path: '/workflows/{name}/diff',
  tag: 'workflows',
  summary: 'What differs between two versions',
  params: nameParams,
  query: fields('query option', { from: idParam, to: idParam }),
  answers: {
    200: {
      description: 'Each key that differs, with its value in both; null where it is not there.',
      schema: z.object({ items: z.array(Difference) }),
    },
  },
  problems: ['JE002'],
  handle: async ({ params: { name }, query: { from, to } }, { db }) => ({
    status: 200,
    body: { items: await workflowDiff(db, name, from, to) },
  }),
})

export const workflowRoutes = [publish, list, read, change, listVersions, readVersion, compare]

function isName(value: unknown): value is string {
  return typeof value === 'string'
}
