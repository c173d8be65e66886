import { z } from '@hono/zod-openapi'
import { listRuns, type NewRun, startRun } from '../../database/engine.ts'
import { endpoint } from '../endpoint.ts'
import { anyJson, fields } from '../fields.ts'
import { IDEMPOTENCY_KEY, keyHeader, withKey } from '../idempotency-key.ts'
import type { Services } from '../services.ts'
import { nameParams } from './workflows.ts'

const Started = z.object({
  id: z.int().openapi({ example: 42 }),
  created: z.boolean().openapi({ description: 'False when the idempotency key was taken.' }),
})

const start = endpoint({
  method: 'post',
  path: '/workflows/{name}/runs',
  tag: 'runs',
  summary: 'Start a run of a workflow',
  description:
    'The input is checked against the schema of the version. The header Idempotency-Key is the ' +
    'idempotency_key.',
  params: nameParams,
  headers: keyHeader,
  body: fields('field', {
    input: anyJson.optional().openapi({ description: 'Any JSON that fits. Default {}.' }),
    version: z
      .number()
      .optional()
      .openapi({ type: 'integer', description: 'Default: the latest. The run stays on it.' }),
    idempotency_key: z.string().optional().openapi({
      description: 'The same key for the same workflow gives the same run.',
      maxLength: 500,
    }),
    tags: z.array(z.string()).optional().openapi({ description: 'Words for finding it.' }),
    priority: z.number().optional().openapi({
      type: 'integer',
      minimum: 0,
      maximum: 9,
      description: 'Of its jobs, unless a task says otherwise. Higher first.',
    }),
    tenant: z.string().optional(),
  }),
  bodyRequired: false,
  answers: {
    202: { description: 'Started.', schema: Started },
    200: { description: 'Nothing new: the key stands for this run.', schema: Started },
  },
  problems: ['JE002', 'JE005', 'JE006'],
  handle: async ({ params: { name: workflow }, body, headers }, { db }) => {
    const run: NewRun = { ...withKey(body, headers[IDEMPOTENCY_KEY]), workflow }
    const known = await existing(run, db)
    const id = await startRun(db, run)
    const created = id !== known
    return {
      status: created ? 202 : 200,
      body: { id, created },
      headers: { location: `/runs/${id}` },
    }
  },
})

/** The run that has the key already. Of two requests at the same moment both may find none. */
async function existing(
  { workflow, idempotency_key, tenant }: NewRun,
  db: Services['db'],
): Promise<number | undefined> {
  if (idempotency_key === undefined) return undefined
  const [run] = await listRuns(db, { workflow, idempotency_key, tenant }, { max: 1 })
  return run?.id
}

export const runStartRoutes = [start]
