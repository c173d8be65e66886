import { DatabaseError, isConnectionError } from '../database/database.ts'
import { FencepostError } from '../errors.ts'

/** Classes of SQLSTATE that tell of the server's state and not of what was sent. */
const TRANSIENT = new Set(['08', '40', '53', '55', '57', '58'])

/** Classes of SQLSTATE that tell of what was sent: values that do not exist, structures that are too deep. */
const CONTENT = new Set(['22', '54'])

/** True when a round was refused for one of the results that it brought. */
export function isRefusal(error: unknown): error is Error {
  if (error instanceof FencepostError) return error.code === 'JE006'
  return error instanceof DatabaseError && CONTENT.has(error.code.slice(0, 2))
}

/** True when the same statement may succeed later: the server, the moment or the connection was at fault. */
export function isTransient(error: unknown): boolean {
  if (isConnectionError(error)) return true
  if (!(error instanceof DatabaseError)) return false
  // 25006: a standby, or a primary that is being demoted.
  return TRANSIENT.has(error.code.slice(0, 2)) || error.code === '25006'
}
