import { Backoff } from '../../database/backoff.ts'
import type { Database } from '../../database/database.ts'
import * as engine from '../../database/engine.ts'
import { defineJob, type JobDefinition } from '../../definitions/define-job.ts'
import { FencepostError } from '../../errors.ts'
import { asRefusal } from '../../refusal.ts'
import { version } from '../../version.ts'
import { AttemptAbortedError } from '../../worker/abort.ts'
import type { JobContext } from '../../worker/context.ts'
import { PermanentError } from '../../worker/failure.ts'
import { isTransient } from '../../worker/refusals.ts'
import { type Answer, type Post, post } from './post.ts'
import { signedHeaders } from './signature.ts'
import { askedWait, judge } from './verdict.ts'

/** How deliveries are made. */
export interface DeliveryOptions {
  readonly db: Database
  /** Whether endpoints may have private addresses, and no TLS. */
  readonly allowPrivate: boolean
  /** Told that none can be made here: the role may not (JE009), the schema does not fit (JE011). */
  readonly onRefused: (refusal: FencepostError) => void
}

const PREFIX = 'fencepost.webhook.'

/** The jobs of one type, `fencepost.webhook.NAME`: each delivers one event. */
export function deliveryJob(type: string, options: DeliveryOptions): JobDefinition {
  return defineJob({ type, run: (_payload, context) => deliver(context, options) })
}

/** One attempt. Where it goes and what it is signed with is asked anew each time, and kept nowhere. */
async function deliver(
  context: JobContext,
  options: DeliveryOptions,
): Promise<{ readonly status: number }> {
  const { db, allowPrivate } = options
  const { url, message_id: id, body, secrets } = await deliveryOf(context, options)
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
  try {
    return Math.max(asked, await engine.backoffAfter(db, type, attempt))
  } catch (error) {
    if (isTransient(error)) return undefined // that backoff, then
    throw error
  }
}

/**
 * What is to be delivered. Where that cannot be had for a reason that lies with us, the delivery is given back: its
 * attempts are for its endpoint.
 */
async function deliveryOf(
  context: JobContext,
  { db, onRefused }: DeliveryOptions,
): Promise<engine.WebhookDelivery> {
  try {
    return await engine.webhookDelivery(db, context.jobId, context.token)
  } catch (error) {
    const refusal = asRefusal(error)
    const code = refusal instanceof FencepostError ? refusal.code : undefined
    if (code === 'JE002') throw new PermanentError((refusal as Error).message, { cause: refusal })
    if (code === 'JE009' || code === 'JE011') onRefused(refusal as FencepostError)
    else if (!isTransient(refusal)) throw refusal
    context.log.warn({ error: refusal }, 'a delivery could not be looked up, and is given back')
    return await giveBack(context)
  }
}

/** Gives a delivery back as if there had been no attempt, once the database takes it, and not at once. */
async function giveBack(context: JobContext): Promise<never> {
  const backoff = new Backoff()
  for (;;) {
    await backoff.wait()
    context.signal.throwIfAborted()
    try {
      await context.release()
    } catch (error) {
      if (!isTransient(error)) throw error
    }
  }
}
