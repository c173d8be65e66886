import { createHash } from 'node:crypto'
import type { Info } from '@temporalio/activity'

/** The longest idempotency key that the engine takes. */
const LONGEST = 500

/**
 * The idempotency key of an activity's job: `workflowId/runId/activityId`. All attempts of an activity share it, so a
 * retry finds the job of the attempt before. It names the run, because each run of a workflow counts its activities
 * from 1 again: a later one with the same workflow id, as after continue-as-new, has jobs of its own.
 *
 * An activity outside of a workflow has `activityId/activityRunId`. A key that would be too long is a digest.
 */
export function idempotencyKey(
  info: Pick<Info, 'workflowExecution' | 'activityId' | 'activityRunId'>,
): string {
  const { workflowExecution: workflow, activityId, activityRunId } = info
  const parts =
    workflow === undefined
      ? [activityId, activityRunId]
      : [workflow.workflowId, workflow.runId, activityId]
  const key = parts.join('/')
  return key.length > LONGEST ? `sha256:${createHash('sha256').update(key).digest('hex')}` : key
}
