import { hostname } from 'node:os'

/**
 * A name for one who reads events, that no other has: two with one name would share a lease, get the same events, and
 * acknowledge what the other works on. Host and process alone may be those of another container.
 */
export function newReader(): string {
  return `${hostname()}/${process.pid}/${Math.random().toString(36).slice(2, 8)}`
}
