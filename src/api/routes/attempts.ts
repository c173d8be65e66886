import { z } from '@hono/zod-openapi'
import {
  type AttemptKey,
  complete,
  completeMany,
  fail,
  failMany,
  progress,
  release,
  releaseMany,
  step,
  suspend,
} from '../../database/engine.ts'
import { check } from '../body.ts'
import { type Answer, endpoint } from '../endpoint.ts'
import { anyJson, fields, interval, oneOrMany, time } from '../fields.ts'
import { AttemptRef, Completion, Failure } from './attempt-schemas.ts'

// What a worker says of its attempts, one or a list. A single stale one is refused (JE001); of a list,
// the stale ones come back under `refused`, and the others count.

const Key = z.object({ job_id: z.int(), token: z.int() })
const Settled = z.object({ accepted: z.array(Key), refused: z.array(Key) })
const Verdict = z.object({
  job_id: z.int(),
  verdict: z.enum(['retry', 'dead_letter', 'cancelled']),
})
const problems = ['JE001', 'JE002', 'JE006'] as const

const completeAttempts = endpoint({
  method: 'post',
  path: '/worker/complete',
  tag: 'worker protocol',
  summary: 'Complete an attempt, or a list of them',
  body: oneOrMany('Completion'),
  components: { Completion },
  answers: {
    200: {
      description: 'Completed.',
      schema: z.union([z.object({ job_id: z.int(), status: z.literal('completed') }), Settled]),
    },
  },
  problems,
  handle: async ({ body }, { db }) => {
    if (!Array.isArray(body)) {
      const { job_id, token, result } = check(Completion, body)
      await complete(db, job_id, token, result)
      return { status: 200, body: { job_id, status: 'completed' } }
    }
    const list = listOf(Completion, body)
    const results = list.map(({ result }) => result)
    return settled(list, await completeMany(db, { ...pairs(list), results }))
  },
})

const failAttempts = endpoint({
  method: 'post',
  path: '/worker/fail',
  tag: 'worker protocol',
  summary: 'Fail an attempt, or a list of them',
  body: oneOrMany('Failure'),
  components: { Failure },
  answers: {
    200: {
      description: 'What became of the job.',
      schema: z.union([
        Verdict,
        z.object({
          settled: z.array(Verdict.extend({ token: z.int() })),
          refused: z.array(Key),
        }),
      ]),
    },
  },
  problems: ['JE001', 'JE002'],
  handle: async ({ body }, { db }) => {
    if (!Array.isArray(body)) {
      const { job_id, token, ...failure } = check(Failure, body)
      return { status: 200, body: { job_id, verdict: await fail(db, job_id, token, failure) } }
    }
    const list = listOf(Failure, body)
    const verdicts = await failMany(db, {
      ...pairs(list),
      errors: list.map(({ error }) => error ?? null),
      retry_in: list.map(({ retry_in }) => retry_in ?? null),
      permanent: list.map(({ permanent }) => permanent ?? false),
      details: list.map(({ details }) => details),
    })
    return { status: 200, body: { settled: verdicts, refused: refusedOf(list, verdicts) } }
  },
})

const releaseAttempts = endpoint({
  method: 'post',
  path: '/worker/release',
  tag: 'worker protocol',
  summary: 'Give an attempt back unstarted, or a list of them',
  description: 'The job is ready at once, for anyone; the attempt does not count.',
  body: oneOrMany('AttemptRef'),
  components: { AttemptRef },
  answers: {
    200: {
      description: 'Given back.',
      schema: z.union([z.object({ job_id: z.int(), status: z.literal('pending') }), Settled]),
    },
  },
  problems: ['JE001', 'JE002'],
  handle: async ({ body }, { db }) => {
    if (!Array.isArray(body)) {
      const { job_id, token } = check(AttemptRef, body)
      await release(db, job_id, token)
      return { status: 200, body: { job_id, status: 'pending' } }
    }
    const list = listOf(AttemptRef, body)
    const { job_ids, tokens } = pairs(list)
    return settled(list, await releaseMany(db, job_ids, tokens))
  },
})

const reportProgress = endpoint({
  method: 'post',
  path: '/worker/progress',
  tag: 'worker protocol',
  summary: 'Tell how far a running job is',
  body: fields('field', { ...AttemptRef.shape, value: anyJson.openapi({ example: 0.5 }) }),
  answers: { 204: { description: 'Recorded; only the latest is kept.' } },
  problems: ['JE001', 'JE002'],
  handle: async ({ body: { job_id, token, value } }, { db }) => {
    await progress(db, job_id, token, value)
    return { status: 204 }
  },
})

const recordStep = endpoint({
  method: 'post',
  path: '/worker/step',
  tag: 'worker protocol',
  summary: 'Record a checkpoint once',
  description: 'The first value stays; later attempts get it back.',
  body: fields('field', { ...AttemptRef.shape, name: z.string(), value: anyJson.optional() }),
  answers: {
    200: { description: 'What is recorded.', schema: z.object({ value: anyJson }) },
  },
  problems: ['JE001', 'JE002'],
  handle: async ({ body: { job_id, token, name, value } }, { db }) => ({
    status: 200,
    body: { value: await step(db, job_id, token, name, value) },
  }),
})

const suspendAttempt = endpoint({
  method: 'post',
  path: '/worker/suspend',
  tag: 'worker protocol',
  summary: 'Step aside until a time, or until the job is resumed',
  description: 'The job leaves the worker and comes back under a new token.',
  body: fields('field', {
    ...AttemptRef.shape,
    wake_at: time.optional(),
    delay: interval.optional(),
    waits_for: z.string().optional(),
  }),
  answers: {
    200: {
      description: 'It waits.',
      schema: z.object({ job_id: z.int(), status: z.literal('waiting') }),
    },
  },
  problems: ['JE001', 'JE002', 'JE004'],
  handle: async ({ body: { job_id, token, ...until } }, { db }) => {
    await suspend(db, job_id, token, until)
    return { status: 200, body: { job_id, status: 'waiting' } }
  },
})

export const attemptRoutes = [
  completeAttempts,
  failAttempts,
  releaseAttempts,
  reportProgress,
  recordStep,
  suspendAttempt,
]

function listOf<Schema extends z.ZodType<AttemptKey>>(schema: Schema, body: readonly unknown[]) {
  return body.map((each, index) => check(schema, each, 'body', `#/${index}`))
}

function pairs(list: readonly AttemptKey[]) {
  return { job_ids: list.map(({ job_id }) => job_id), tokens: list.map(({ token }) => token) }
}

function settled(list: readonly AttemptKey[], accepted: readonly AttemptKey[]): Answer {
  return { status: 200, body: { accepted, refused: refusedOf(list, accepted) } }
}

/** Those that are not among the accepted ones. */
function refusedOf(list: readonly AttemptKey[], accepted: readonly AttemptKey[]): AttemptKey[] {
  const keyOf = ({ job_id, token }: AttemptKey) => `${job_id} ${token}`
  const good = new Set(accepted.map(keyOf))
  return list
    .filter((each) => !good.has(keyOf(each)))
    .map(({ job_id, token }) => ({ job_id, token }))
}
