import type { Database } from '../../database/database.ts'
import * as engine from '../../database/engine.ts'
import { defineJob, type JobDefinition } from '../../definitions/define-job.ts'
import { FencepostError } from '../../errors.ts'
import { asRefusal } from '../../refusal.ts'
import { version } from '../../version.ts'
import { AttemptAbortedError } from '../../worker/abort.ts'
import type { JobContext } from '../../worker/context.ts'
import { PermanentError } from '../../worker/failure.ts'
import { type Answer, type Post, post } from './post.ts'
import { signedHeaders } from './signature.ts'
import { askedWait, judge } from './verdict.ts'

/** How deliveries are made. */
export interface DeliveryOptions {
  readonly db: Database
  /** Whether endpoints may have private addresses, and no TLS. */
  readonly allowPrivate: boolean
}

const PREFIX = 'fencepost.webhook.'

/** The jobs of one type, `fencepost.webhook.NAME`: each delivers one event. */
export function deliveryJob(type: string, options: DeliveryOptions): JobDefinition {
  return defineJob({ type, run: (_payload, context) => deliver(context, options) })
}

/** One attempt. Where it goes and what it is signed with is asked anew each time, and kept nowhere. */
async function deliver(
  context: JobContext,
  { db, allowPrivate }: DeliveryOptions,
): Promise<{ readonly status: number }> {
  const { url, message_id: id, body, secrets } = await deliveryOf(db, context)
  const answer = await answerTo(
    {
      url,
      headers: {
        'content-type': 'application/json',
        'user-agent': `Fencepost/${version}`,
        ...signedHeaders({ id, body }, secrets, new Date()),
      },
      body,
      allowPrivate,
    },
    context,
  )
  if (judge(answer, await waitAfter(answer, context, db)) === 'gone') {
    await engine.configureWebhook(db, context.type.slice(PREFIX.length), {
      paused: true,
      reason: 'the endpoint answered 410 Gone',
    })
    throw new Error('the endpoint answered 410 Gone: its webhook was paused')
  }
  return { status: answer.status }
}

/** What the endpoint answers, in the time that the attempt has. */
async function answerTo(request: Omit<Post, 'signal'>, { signal }: JobContext): Promise<Answer> {
  const begunAt = performance.now()
  try {
    return await post({ ...request, signal })
  } catch (error) {
    if (!(error instanceof AttemptAbortedError && error.why === 'timed_out')) throw error
    const seconds = Math.round((performance.now() - begunAt) / 1000)
    throw new Error(`no answer within ${seconds} s`, { cause: error })
  }
}

/**
 * How long to wait when the endpoint asks for it, in ms: as long as that, and no shorter than without asking. An
 * endpoint that always says "in a second" would otherwise use up all attempts in seconds.
 */
async function waitAfter(
  answer: Answer,
  { type, attempt }: JobContext,
  db: Database,
): Promise<number | undefined> {
  const asked = askedWait(answer, new Date())
  if (asked === undefined) return undefined
  return Math.max(asked, await engine.backoffAfter(db, type, attempt))
}

async function deliveryOf(
  db: Database,
  { jobId, token }: JobContext,
): Promise<engine.WebhookDelivery> {
  try {
    return await engine.webhookDelivery(db, jobId, token)
  } catch (error) {
    const refusal = asRefusal(error)
    if (refusal instanceof FencepostError && refusal.code === 'JE002') {
      throw new PermanentError(refusal.message, { cause: refusal })
    }
    throw refusal
  }
}
