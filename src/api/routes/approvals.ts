import { z } from '@hono/zod-openapi'
import { approve, listApprovals, reject } from '../../database/engine.ts'
import { boundedPage, decodeCursor, isId } from '../cursor.ts'
import { endpoint } from '../endpoint.ts'
import { anyJson, fields, idParams, limit } from '../fields.ts'
import { pageOf } from '../schemas.ts'
import { Approval } from '../workflow-schemas.ts'
import { existingApproval } from './existing.ts'

const list = endpoint({
  method: 'get',
  path: '/approvals',
  tag: 'approvals',
  summary: 'Approvals that match, newest first',
  description:
    'One answer looks at no more than 10,000 of them: an answer that is not full may still have a ' +
    'next_cursor, and the list goes on there.',
  query: fields('query option', {
    status: z.string().optional().openapi({ enum: Approval.shape.status.options }),
    run_id: z.string().optional().openapi({ type: 'integer' }),
    workflow: z.string().optional(),
    tenant: z.string().optional(),
    limit,
    after: z.string().optional().openapi({ description: 'next_cursor of the page before.' }),
  }),
  answers: { 200: { description: 'A part of the list.', schema: pageOf(Approval) } },
  handle: async ({ query: { limit: max, after, ...filter } }, { db }) => {
    const from = after === undefined ? undefined : decodeCursor(after, isId)
    const rows = await listApprovals(db, filter, { max, after: from })
    return { status: 200, body: boundedPage(rows, max) }
  },
})

const read = endpoint({
  method: 'get',
  path: '/approvals/{id}',
  tag: 'approvals',
  summary: 'One approval',
  params: idParams,
  answers: { 200: { description: 'The approval.', schema: Approval } },
  problems: ['JE002'],
  handle: async ({ params: { id } }, { db }) => ({
    status: 200,
    body: await existingApproval(db, id),
  }),
})

/** A decision, as it is sent. */
const decision = fields('field', {
  decided_by: z.string().optional().openapi({ description: 'Default: who asks the database.' }),
  comment: z.string().optional(),
  data: anyJson.optional().openapi({ description: 'Any JSON: part of the output of the task.' }),
})

const decide = (verb: 'approve' | 'reject') =>
  endpoint({
    method: 'post',
    path: `/approvals/{id}/${verb}`,
    tag: 'approvals',
    summary: verb === 'approve' ? 'Approve: the run goes on' : 'Reject, as the task says what then',
    description: 'One decision only.',
    params: idParams,
    body: decision,
    bodyRequired: false,
    answers: { 200: { description: 'The approval with its decision.', schema: Approval } },
    problems: ['JE002', 'JE004', 'JE006'],
    handle: async ({ params: { id }, body }, { db }) => {
      const decided = await db.transaction(async (tx) => {
        await (verb === 'approve' ? approve : reject)(tx, id, body)
        return existingApproval(tx, id)
      })
      return { status: 200, body: decided }
    },
  })

export const approvalRoutes = [list, read, decide('approve'), decide('reject')]
