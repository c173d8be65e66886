import { z } from '@hono/zod-openapi'
import { enqueue, enqueueMany, type NewJob } from '../../database/engine.ts'
import { FencepostError } from '../../errors.ts'
import { check } from '../body.ts'
import { type Answer, endpoint } from '../endpoint.ts'
import { anyJson, fields, interval, oneOrMany, time } from '../fields.ts'
import { IDEMPOTENCY_KEY, keyHeader, withKey } from '../idempotency-key.ts'
import type { Services } from '../services.ts'

/** A job as it is enqueued; the ranges are the engine's to check, here they are told. */
const JobToEnqueue = fields('field', {
  type: z.string().openapi({ description: 'What kind of work.', example: 'email.send' }),
  payload: anyJson.optional().openapi({ description: 'Any JSON for the handler. Default {}.' }),
  priority: z
    .number()
    .optional()
    .openapi({ type: 'integer', minimum: 0, maximum: 9, default: 5, description: 'Higher first.' }),
  run_at: time.optional().openapi({ description: 'Not before this time.' }),
  delay: interval.optional().openapi({ description: 'Not before this long from now.' }),
  idempotency_key: z.string().optional().openapi({
    description: 'The same key for the same type gives the same job, while that job is kept.',
    maxLength: 500,
  }),
  max_attempts: z.number().optional().openapi({ type: 'integer', minimum: 1 }),
  timeout: interval.optional().openapi({ description: 'The limit of one attempt.' }),
  headers: z
    .record(z.string(), z.unknown())
    .optional()
    .openapi({ description: 'Metadata for machines, such as traceparent.' }),
  tenant: z.string().optional(),
}).openapi('NewJob')

const Enqueued = z
  .object({
    id: z.int().openapi({ example: 42 }),
    created: z.boolean().openapi({ description: 'False when the idempotency key was taken.' }),
  })
  .openapi('Enqueued')

const OneOrList = z.union([Enqueued, z.object({ jobs: z.array(Enqueued) })])

export const enqueueJobs = endpoint({
  method: 'post',
  path: '/jobs',
  tag: 'jobs',
  summary: 'Enqueue a job, or a list of jobs',
  description:
    'A list is enqueued all or nothing; a refusal names the job that caused it. The header ' +
    'Idempotency-Key is the idempotency_key of a single job.',
  headers: keyHeader,
  body: oneOrMany('NewJob'),
  components: { NewJob: JobToEnqueue },
  answers: {
    202: {
      description: 'Enqueued. A list answers {"jobs": […]}, in its order.',
      schema: OneOrList,
    },
    200: { description: 'Nothing new: the keys stand for these jobs.', schema: OneOrList },
  },
  problems: ['JE005', 'JE006', 'JE007'],
  handle: async ({ body, headers }, services) => {
    const key = headers[IDEMPOTENCY_KEY]
    return Array.isArray(body)
      ? enqueueList(body, key, services)
      : enqueueOne(withKey(check(JobToEnqueue, body), key) as NewJob, services)
  },
})

async function enqueueOne(job: NewJob, { db }: Services): Promise<Answer> {
  if (job.idempotency_key === undefined) return accepted(await enqueue(db, job), true)
  try {
    const [row] = await enqueueMany(db, [job])
    return accepted(row?.job_id ?? 0, row?.created ?? true)
  } catch (error) {
    throw alone(error)
  }
}

function accepted(id: number, created: boolean): Answer {
  return {
    status: created ? 202 : 200,
    body: { id, created },
    headers: { location: `/jobs/${id}` },
  }
}

async function enqueueList(
  body: readonly unknown[],
  key: string | undefined,
  { db }: Services,
): Promise<Answer> {
  if (key !== undefined) {
    throw new FencepostError('JE003', 'the header Idempotency-Key is for a single job', {
      detail: `received a list of ${body.length}`,
      hint: 'Give each job of the list its own idempotency_key.',
    })
  }
  const jobs = body.map((each, index) => check(JobToEnqueue, each, 'body', `#/${index}`))
  const rows = await enqueueMany(db, jobs as NewJob[])
  const news = rows.some(({ created }) => created) || rows.length === 0
  return {
    status: news ? 202 : 200,
    body: { jobs: rows.map(({ job_id, created }) => ({ id: job_id, created })) },
  }
}

/** An error of a list of one, as the error of a single job. */
function alone(error: unknown): unknown {
  if (!(error instanceof FencepostError)) return error
  const strip = (text: string | undefined) =>
    text?.replace(/\s*(?:in )?job 1 of the list[:;]?\s*/, ' ').trim()
  return new FencepostError(error.code, strip(error.message) ?? '', {
    detail: strip(error.detail),
    hint: error.hint,
    cause: error,
  })
}
