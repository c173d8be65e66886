import { z } from '@hono/zod-openapi'
import {
  deadLetters,
  discard,
  discardMatching,
  getDeadLetter,
  replay,
  replayMatching,
} from '../../database/engine.ts'
import { FencepostError } from '../../errors.ts'
import { decodeCursor, isId, page } from '../cursor.ts'
import { endpoint } from '../endpoint.ts'
import { fields, idParams, limit, time } from '../fields.ts'
import { DeadLetter, pageOf } from '../schemas.ts'
import { existingJob } from './existing.ts'

const Moved = z.object({ job_id: z.int(), status: z.string() })
const Matched = z.object({
  matched: z.int().openapi({ description: 'How many were meant, or done.' }),
  dry_run: z.boolean(),
})

/** Which dead letters are meant: `{}` is all of them. */
const filter = fields('key of the filter', {
  type: z.string().optional(),
  tenant: z.string().optional(),
  priority: z.number().optional().openapi({ type: 'integer' }),
  attempts: z.number().optional().openapi({ type: 'integer' }),
  failed_after: time.optional(),
  failed_before: time.optional(),
  error: z.string().optional().openapi({ description: 'A part of the final error, in any case.' }),
  error_matches: z.string().optional().openapi({ description: 'A regular expression.' }),
}).openapi({ description: '{} means all dead letters.' })
const dry_run = z
  .boolean()
  .optional()
  .openapi({ default: true, description: 'True only counts; it is done with false.' })
const max = z.number().optional().openapi({ type: 'integer', default: 10_000 })
const reason = z.string().optional().openapi({ description: 'Kept in the event.' })

const list = endpoint({
  method: 'get',
  path: '/dead-letter',
  tag: 'dead letters',
  summary: 'Jobs that failed for good, newest first',
  query: fields('query option', {
    type: z.string().optional(),
    limit,
    after: z.string().optional(),
  }),
  answers: { 200: { description: 'A part of the list.', schema: pageOf(DeadLetter) } },
  handle: async ({ query: { type, limit: most, after } }, { db }) => {
    const before = after === undefined ? undefined : decodeCursor(after, isId)
    const rows = await deadLetters(db, { type, limit: most + 1, before })
    return { status: 200, body: page(rows, most, ({ job_id }) => job_id) }
  },
})

const read = endpoint({
  method: 'get',
  path: '/dead-letter/{id}',
  tag: 'dead letters',
  summary: 'One dead letter, by its job',
  params: idParams,
  answers: { 200: { description: 'The dead letter.', schema: DeadLetter } },
  problems: ['JE002'],
  handle: async ({ params: { id } }, { db }) => {
    const letter = await getDeadLetter(db, id)
    if (letter !== undefined) return { status: 200, body: letter }
    const { status } = await existingJob(db, id)
    throw new FencepostError('JE002', `job ${id} is not dead-lettered`, {
      detail: `the job is ${status}`,
      hint: `See /jobs/${id}.`,
    })
  },
})

const replayOne = endpoint({
  method: 'post',
  path: '/dead-letter/{id}/replay',
  tag: 'dead letters',
  summary: 'Return a dead letter to work',
  description: 'Its attempts start again at 1; its history stays.',
  params: idParams,
  body: fields('field', {}),
  bodyRequired: false,
  answers: { 202: { description: 'It is pending.', schema: Moved } },
  problems: ['JE002', 'JE004'],
  handle: async ({ params: { id } }, { db }) => {
    await replay(db, id)
    return { status: 202, body: { job_id: id, status: 'pending' } }
  },
})

const discardOne = endpoint({
  method: 'post',
  path: '/dead-letter/{id}/discard',
  tag: 'dead letters',
  summary: 'Give a dead letter up',
  params: idParams,
  body: fields('field', { reason }),
  bodyRequired: false,
  answers: { 200: { description: 'It ended as discarded.', schema: Moved } },
  problems: ['JE002', 'JE004'],
  handle: async ({ params: { id }, body }, { db }) => {
    await discard(db, id, body.reason)
    return { status: 200, body: { job_id: id, status: 'discarded' } }
  },
})

const replayMany = endpoint({
  method: 'post',
  path: '/dead-letter/replay',
  tag: 'dead letters',
  summary: 'Return all dead letters that match to work, or count them',
  body: fields('field', { filter, dry_run, max }),
  answers: { 200: { description: 'How many.', schema: Matched } },
  handle: async ({ body: { filter: which, dry_run: dry = true, max: most } }, { db }) => ({
    status: 200,
    body: { matched: await replayMatching(db, which, { dry_run: dry, max: most }), dry_run: dry },
  }),
})

const discardMany = endpoint({
  method: 'post',
  path: '/dead-letter/discard',
  tag: 'dead letters',
  summary: 'Give up all dead letters that match, or count them',
  body: fields('field', { filter, dry_run, max, reason }),
  answers: { 200: { description: 'How many.', schema: Matched } },
  handle: async (
    { body: { filter: which, dry_run: dry = true, max: most, reason: why } },
    { db },
  ) => ({
    status: 200,
    body: {
      matched: await discardMatching(db, which, { dry_run: dry, max: most, reason: why }),
      dry_run: dry,
    },
  }),
})

export const deadLetterRoutes = [list, read, replayOne, discardOne, replayMany, discardMany]
