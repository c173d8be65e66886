import type { Queryable } from '../database/database.ts'
import { type ConsumerRow, dropConsumer, getConsumer } from '../database/engine.ts'
import { FencepostError } from '../errors.ts'

/**
 * A consumer that exists.
 *
 * @throws FencepostError JE002
 */
export async function existingConsumer(db: Queryable, name: string): Promise<ConsumerRow> {
  const consumer = await getConsumer(db, name)
  if (consumer === undefined) throw missing(name)
  return consumer
}

/**
 * Removes a consumer that exists.
 *
 * @throws FencepostError JE001 when a transaction holds it; JE002
 */
export async function dropExistingConsumer(db: Queryable, name: string): Promise<void> {
  if (!(await dropConsumer(db, name))) throw missing(name)
}

function missing(name: string): FencepostError {
  return new FencepostError('JE002', `consumer ${name.slice(0, 200)} does not exist`, {
    detail: `received name = ${name.slice(0, 200)}`,
    hint: 'See GET /consumers, or fencepost consumer list.',
  })
}
