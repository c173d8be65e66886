import { DatabaseError, isConnectionError } from '../database/database.ts'

/** Classes of SQLSTATE that tell of the server's state and not of what was sent. */
const TRANSIENT = new Set(['08', '40', '53', '55', '57', '58'])

/** True when the same statement may succeed later: the server, the moment or the connection was at fault. */
export function isTransient(error: unknown): boolean {
  if (isConnectionError(error)) return true
  if (!(error instanceof DatabaseError)) return false
  // 25006: a standby, or a primary that is being demoted.
  return TRANSIENT.has(error.code.slice(0, 2)) || error.code === '25006'
}
