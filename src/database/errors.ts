import { FencepostError, isErrorCode } from '../errors.ts'

/**
 * What is known about the effect of a statement that failed without an answer.
 * - `not_sent`: it certainly had none. It was never sent, or belonged to a transaction whose COMMIT was not sent.
 * - `unknown`: it was sent, and may have taken effect.
 */
export type Outcome = 'unknown' | 'not_sent'

/** The fields of a server's error that are worth keeping, as postgres.js or as node-postgres names them. */
interface ServerFields {
  code: string
  message: string
  severity?: string
  detail?: string
  hint?: string
  position?: string
  where?: string
  schema_name?: string
  table_name?: string
  column_name?: string
  constraint_name?: string
  schema?: string
  table?: string
  column?: string
  constraint?: string
}

/** An answer of the server: the statement was refused and had no effect. */
export class DatabaseError extends Error {
  override readonly name = 'DatabaseError'
  /** The SQLSTATE. */
  readonly code: string
  readonly severity: string | undefined
  readonly detail: string | undefined
  readonly hint: string | undefined
  /** Where in the statement, counted in characters from 1. */
  readonly position: number | undefined
  /** The stack of PL/pgSQL functions that led there. */
  readonly where: string | undefined
  readonly schema: string | undefined
  readonly table: string | undefined
  readonly column: string | undefined
  readonly constraint: string | undefined

  constructor(fields: ServerFields) {
    super(fields.message)
    this.code = fields.code
    this.severity = fields.severity
    this.detail = fields.detail || undefined
    this.hint = fields.hint || undefined
    this.position = fields.position === undefined ? undefined : Number(fields.position)
    this.where = fields.where
    this.schema = fields.schema_name ?? fields.schema
    this.table = fields.table_name ?? fields.table
    this.column = fields.column_name ?? fields.column
    this.constraint = fields.constraint_name ?? fields.constraint
  }
}

/** There was no connection to be had, or it was lost before the answer came. */
export class ConnectionLostError extends Error {
  override readonly name = 'ConnectionLostError'
  /** As the system or the server calls it: `ECONNREFUSED`, `ECONNRESET`, SQLSTATE `57P01`, ... */
  readonly code: string
  readonly outcome: Outcome
  readonly hint: string | undefined

  constructor(
    message: string,
    options: { code: string; outcome: Outcome; hint?: string | undefined; cause?: unknown },
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.code = options.code
    this.outcome = options.outcome
    this.hint = options.hint
  }
}

/** The deadline passed before the answer came. The server was asked to stop the statement. */
export class QueryTimeoutError extends Error {
  override readonly name = 'QueryTimeoutError'
  readonly code = 'QUERY_TIMEOUT'
  readonly outcome: Outcome
  /** The deadline that was missed, in ms. */
  readonly timeout: number

  constructor(timeout: number, outcome: Outcome, waitedFor: string) {
    super(`no answer within ${timeout} ms: ${waitedFor}`)
    this.timeout = timeout
    this.outcome = outcome
  }
}

/** The caller's signal was aborted before the answer came; `cause` is the signal's reason. */
export class QueryAbortedError extends Error {
  override readonly name = 'QueryAbortedError'
  readonly code = 'QUERY_ABORTED'
  readonly outcome: Outcome

  constructor(outcome: Outcome, reason: unknown) {
    super('the query was aborted by its caller', { cause: reason })
    this.outcome = outcome
  }
}

/** True when the connection, not the statement, failed: the same call may succeed on another one. */
export function isConnectionError(
  error: unknown,
): error is ConnectionLostError | QueryTimeoutError {
  return error instanceof ConnectionLostError || error instanceof QueryTimeoutError
}

/** True when the database was closed here: the same call never succeeds again. */
export function isClosed(error: unknown): boolean {
  return error instanceof ConnectionLostError && error.code === CLOSED
}

/** The code of what is asked of a database that was closed. */
export const CLOSED = 'CLOSED'

/** Makes of what a driver rejected with an error of ours; `outcome` is what a lost connection means. */
export function translate(error: unknown, outcome: Outcome): Error {
  if (isOurs(error)) return error
  const answer = serverErrorOf(error)
  if (answer === undefined) {
    const { code = 'UNKNOWN' } = error as { code?: string }
    return new ConnectionLostError(messageOf(error), { code, outcome, cause: error })
  }
  if (!(answer instanceof DatabaseError && endsConnection(answer))) return answer
  const { code, message } = answer
  const hint = hints[code] ?? answer.hint
  return new ConnectionLostError(message, { code, outcome, hint, cause: answer })
}

/**
 * The server's answer in what any driver, or a library around one, rejected with: a FencepostError for the
 * codes of the catalogue, else a DatabaseError; undefined when the server said nothing.
 */
export function serverErrorOf(error: unknown): DatabaseError | FencepostError | undefined {
  for (let each = error; each instanceof Error; each = each.cause) {
    if (each instanceof DatabaseError || each instanceof FencepostError) return each
    if (!isServerError(each)) continue
    const answer = new DatabaseError(each)
    if (lacksOurs(answer)) return schemaMisfit(answer)
    return isErrorCode(answer.code)
      ? new FencepostError(answer.code, answer.message, { ...answer, cause: answer })
      : answer
  }
  return undefined
}

/** True when what the statement names is ours and is not there: no schema, or an older one. */
function lacksOurs({ code, message }: DatabaseError): boolean {
  return UNKNOWN_NAME.has(code) && /\bfencepost(?:_private)?\b/.test(message)
}

/** No such schema, table, function. */
const UNKNOWN_NAME = new Set(['3F000', '42P01', '42883'])

/** A database that was never migrated, or not for this version. */
export function schemaMisfit(answer: DatabaseError): FencepostError {
  return new FencepostError('JE011', 'the schema of the database does not fit this version', {
    detail: answer.message,
    hint: 'Run fencepost migrate.',
    cause: answer,
  })
}

/** True when the answer is about the connection, not about the statement. */
function endsConnection({ code, severity }: DatabaseError): boolean {
  return (code.startsWith('08') && isFatal(severity)) || code in hints || endings.has(code)
}

/** True when, after this error, the connection should not be used again. */
export function spoilsConnection(error: unknown): boolean {
  if (error instanceof ConnectionLostError) return true
  return error instanceof DatabaseError && (isFatal(error.severity) || error.code === READ_ONLY)
}

function isFatal(severity: string | undefined): boolean {
  return severity === 'FATAL' || severity === 'PANIC'
}

/** A write was refused: the server may have become a standby, and its name may now mean another. */
const READ_ONLY = '25006'

/** Answers to a statement that was prepared on another session than the one that it was sent to. */
const ANOTHER_SESSION = new Set(['26000', '42P05'])

/**
 * What it means that the server does not know what was prepared, or knows it already: a pooler lends sessions to one
 * connection after another. The driver prepares anew, but in a transaction that is too late; it had no effect.
 */
export function pooledInBetween(error: Error): ConnectionLostError | undefined {
  if (!(error instanceof DatabaseError && ANOTHER_SESSION.has(error.code))) return undefined
  return new ConnectionLostError(`a pooler is in between: ${error.message}`, {
    code: 'POOLED',
    outcome: 'not_sent',
    hint: 'From here on no statement is prepared. Say so from the beginning with ?pgbouncer=true in the URL.',
    cause: error,
  })
}

/** Out of connections, for the server, its database or its role. */
export const TOO_MANY_CONNECTIONS = '53300'

const hints: Record<string, string> = {
  [TOO_MANY_CONNECTIONS]:
    'The server has no connection left: raise its max_connections, put a pooler before it, or lower max here.',
  '57P03': 'The server is starting up, shutting down or recovering: try again soon.',
}

/** Shutdown, crash, dropped database, session timeouts. */
const endings = new Set(['57P01', '57P02', '57P04', '57P05', '25P03', '25P04'])

function isOurs(error: unknown): error is Error {
  return isConnectionError(error) || error instanceof QueryAbortedError
}

function isServerError(error: Error & Partial<ServerFields>): error is Error & ServerFields {
  return typeof error.severity === 'string' && /^[0-9A-Z]{5}$/.test(error.code ?? '')
}

/** An AggregateError (all addresses of a host failed) has no message of its own. */
function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const inner = error instanceof AggregateError ? error.errors : []
  return error.message || inner.map(messageOf).join('; ') || error.name
}
