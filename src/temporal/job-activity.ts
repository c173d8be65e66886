import { Context } from '@temporalio/activity'
import type { Fencepost } from '../client/fencepost.ts'
import type { EnqueueOptions } from '../client/new-job.ts'
import { patiently } from '../client/patience.ts'
import type { Queryable } from '../database/database.ts'
import { cancel, getJob, type JobRow, type JobStatus, jobStatus } from '../database/engine.ts'
import type { JobDefinition } from '../definitions/define-job.ts'
import { FencepostError } from '../errors.ts'
import { endedWithoutResult, jobIsGone, refusal } from './failures.ts'
import { Heartbeats } from './heartbeats.ts'
import { idempotencyKey } from './key.ts'

/** What the job of an activity can be given; its idempotency key is that of the activity. */
export type JobActivityOptions = Omit<EnqueueOptions, 'idempotencyKey'>

/** An activity: what it is given becomes a job, what that returns it gives back. Options are added to the defaults. */
export type JobActivity<Input, Result> = (
  payload: Input,
  options?: JobActivityOptions,
) => Promise<Result>

/**
 * Makes an activity for Temporal that is done by a job: it enqueues the job, waits until that has ended, and gives
 * back what it returned. All attempts of an activity have one job, so a worker of Temporal may be killed at any time.
 *
 * The activity heartbeats while it waits, with `{ jobId }`. When its cancellation is requested it cancels the job and
 * ends when that has; a job that completes nevertheless gives its result. When its worker shuts down, or it is paused,
 * reset or timed out, the job goes on and the next attempt finds it.
 *
 * It fails for good, with an `ApplicationFailure` whose details have `{ jobId, error }`, when the job becomes a dead
 * letter (type `FencepostDeadLetter`), is discarded (`FencepostDiscarded`) or is cancelled by somebody else
 * (`FencepostCancelled`); when it is not kept any more (`FencepostJobGone`); and when the enqueue is refused (the
 * code: JE003, JE005, JE006). JE007, a queue that is full or paused, is tried again as the activity's policy says.
 */
export function jobActivity<Input = unknown, Result = unknown>(
  engine: Fencepost,
  job: JobDefinition<string, Input, unknown, Result> | string,
  defaults: JobActivityOptions = {},
): JobActivity<Input, Result> {
  return async (payload, options = {}) => {
    const context = Context.current()
    const beats = new Heartbeats(context)
    try {
      const given = { ...defaults, ...options, idempotencyKey: idempotencyKey(context.info) }
      const jobId = await enqueued(engine, job, payload, given)
      beats.say({ jobId })
      const ended = await endOf(engine.database, jobId, context)
      if (ended.status === 'completed') return ended.result as Result
      if (ended.status === 'cancelled') context.cancellationSignal.throwIfAborted()
      throw endedWithoutResult(ended)
    } finally {
      beats.end()
    }
  }
}

/** The id of the job. It is asked for until the database answers: a job whose id was not heard could not be cancelled. */
async function enqueued(
  engine: Fencepost,
  job: JobDefinition | string,
  payload: unknown,
  options: EnqueueOptions,
): Promise<number> {
  const enqueue = () =>
    typeof job === 'string'
      ? engine.enqueue(job, payload, options)
      : engine.enqueue(job, payload, options)
  try {
    return (await patiently(enqueue)) as number
  } catch (error) {
    throw refusal(error)
  }
}

/** The job once it has ended. It is cancelled when that of the activity is requested. */
async function endOf(db: Queryable, jobId: number, context: Context): Promise<JobRow> {
  const { cancellationSignal: signal } = context
  try {
    return await ended(db, jobId, signal)
  } catch (error) {
    if (!signal.aborted || !context.cancellationDetails?.cancelRequested) throw error
    await cancelled(db, jobId)
    return await ended(db, jobId)
  }
}

async function ended(db: Queryable, jobId: number, signal?: AbortSignal): Promise<JobRow> {
  const look = patiently(
    async (options) => {
      const status = await jobStatus(db, jobId, options)
      if (status === undefined) throw jobIsGone(jobId)
      if (!hasEnded(status)) return undefined
      const job = await getJob(db, jobId, options)
      return job && hasEnded(job.status) ? job : undefined
    },
    { signal },
  )
  return (await look) as JobRow
}

function hasEnded(status: JobStatus): boolean {
  return status !== 'pending' && status !== 'running' && status !== 'waiting'
}

async function cancelled(db: Queryable, jobId: number): Promise<void> {
  try {
    await patiently((options) => cancel(db, jobId, 'its activity was cancelled', options))
  } catch (error) {
    // it has ended meanwhile, or is gone: whoever waits for it sees that
    if (!(error instanceof FencepostError) || !['JE002', 'JE004'].includes(error.code)) throw error
  }
}
