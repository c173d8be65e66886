import { ApplicationFailure } from '@temporalio/activity'
import type { JobRow } from '../database/engine.ts'
import { FencepostError } from '../errors.ts'

/** A job that ended without a result, as the workflow is told: trying the activity again would find the same job. */
export function endedWithoutResult(job: JobRow): ApplicationFailure {
  const { id: jobId, type, status, attempts, last_error: error } = job
  const { name, how } = ends[status as keyof typeof ends]
  return ApplicationFailure.create({
    message: `job ${jobId} (${type}) ${how}${error === null ? '' : `: ${error}`}`,
    type: name,
    nonRetryable: true,
    details: [{ jobId, type, status, attempts, error }],
  })
}

const ends = {
  dead_letter: { name: 'FencepostDeadLetter', how: 'is a dead letter' },
  discarded: { name: 'FencepostDiscarded', how: 'was discarded' },
  cancelled: { name: 'FencepostCancelled', how: 'was cancelled' },
}

/** A job that is not there any more, so that nobody can tell how it ended. */
export function jobIsGone(jobId: number): ApplicationFailure {
  return ApplicationFailure.create({
    message: `job ${jobId} is not kept any more`,
    type: 'FencepostJobGone',
    nonRetryable: true,
    details: [{ jobId }],
  })
}

/** Refusals that another attempt, with the same payload and options, would meet again. */
const FINAL = ['JE003', 'JE005', 'JE006']

/** An enqueue that was refused, as the workflow is told; anything else as it is, and tried again. */
export function refusal(error: unknown): unknown {
  if (!(error instanceof FencepostError) || !FINAL.includes(error.code)) return error
  const { code, message, detail, hint } = error
  return ApplicationFailure.create({
    message,
    type: code,
    nonRetryable: true,
    details: [{ code, detail, hint }],
    cause: error,
  })
}
