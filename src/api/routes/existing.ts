import type { Queryable } from '../../database/database.ts'
import { getJob, type JobRow } from '../../database/engine.ts'
import { FencepostError } from '../../errors.ts'

/**
 * A job that exists.
 *
 * @throws FencepostError JE002
 */
export async function existingJob(db: Queryable, id: number): Promise<JobRow> {
  const job = await getJob(db, id)
  if (job !== undefined) return job
  throw new FencepostError('JE002', `job ${id} does not exist`, {
    detail: `received id = ${id}`,
    hint: 'Finished jobs are removed after keep_finished of their type.',
  })
}
