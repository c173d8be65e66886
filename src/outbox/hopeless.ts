import { isClosed } from '../database/errors.ts'
import { FencepostError } from '../errors.ts'
import { asRefusal } from '../refusal.ts'

/**
 * An error after which the same call may succeed later; any other is thrown: a refusal that would repeat itself, and
 * that the database was closed. A lost lease (JE001) does not repeat itself: the other reader has read what was not
 * acknowledged.
 */
export function unlessHopeless(error: unknown): unknown {
  const refusal = asRefusal(error)
  if (refusal instanceof FencepostError && refusal.code !== 'JE001') throw refusal
  if (isClosed(refusal)) throw refusal
  return refusal
}
