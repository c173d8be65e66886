import { storable } from '../storable.ts'

/** The most characters of a reason that are sent; the engine keeps fewer. */
const MOST = 4096

/**
 * The reason for which an event is set aside, from the text of an error. The engine takes it whatever the text is: a
 * refused reason would leave the event in the way of all that follow.
 */
export function reasonOf(text: string): string {
  return storable(text, MOST).trim() || 'it failed'
}
