import { z } from '@hono/zod-openapi'
import { anyJson, fields, interval } from '../fields.ts'

const job_id = z.int().openapi({ example: 42 })
const token = z.int().openapi({ description: 'As it was claimed.', example: 1 })

/** An attempt, named by the job and the token under which it was claimed. */
export const AttemptRef = fields('field', { job_id, token }).openapi('AttemptRef')

/** An attempt that went well. */
export const Completion = fields('field', {
  job_id,
  token,
  result: anyJson.optional(),
}).openapi('Completion')

/** An attempt that went wrong. */
export const Failure = fields('field', {
  job_id,
  token,
  error: z.string().optional().openapi({ description: 'What went wrong, for people.' }),
  retry_in: interval.optional().openapi({ description: 'The wait instead of the backoff.' }),
  permanent: z.boolean().optional().openapi({ description: 'True: trying again is useless.' }),
  details: anyJson.optional(),
}).openapi('Failure')
