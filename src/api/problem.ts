import { HTTPException } from 'hono/http-exception'
import { DatabaseError, isConnectionError } from '../database/database.ts'
import { type ErrorEntry, errorCatalogue, FencepostError } from '../errors.ts'
import { asRefusal } from '../refusal.ts'

/** A problem document (RFC 9457): the body of every answer that is not a success. */
export interface Problem {
  /** The page that explains the code. */
  readonly type: string
  /** What the code means, the same each time. */
  readonly title: string
  readonly status: number
  /** The SQLSTATE: class JE for what Fencepost refuses, `08006` and `XX000` for what failed. */
  readonly code: string
  /** What was wrong this time, and what was received. */
  readonly detail: string
  /** What would be right, or what to do. */
  readonly hint?: string
  /** The part of the request's body that was refused, as a JSON pointer. */
  readonly pointer?: string
}

/** An answer with a problem, thrown where a code of the catalogue alone does not say it. */
export class ProblemError extends Error {
  override readonly name = 'ProblemError'
  readonly problem: Problem
  readonly headers: Readonly<Record<string, string>>

  constructor(problem: Problem, headers: Readonly<Record<string, string>> = {}) {
    super(problem.detail)
    this.problem = problem
    this.headers = headers
  }
}

/** The database is down, starting, out of connections or too slow. */
export const UNAVAILABLE = '08006'
/** A mistake of ours. */
export const INTERNAL = 'XX000'

/** All codes that problems carry: the engine's, and what may befall a server. */
export const problemCatalogue: readonly ErrorEntry[] = [
  ...errorCatalogue,
  {
    code: UNAVAILABLE,
    name: 'database_unavailable',
    status: 503,
    meaning: 'The database does not answer, or not in time. Retry-After says when to try again.',
  },
  {
    code: INTERNAL,
    name: 'internal_error',
    status: 500,
    meaning: 'Something failed that should not have: the log of the server says what.',
  },
]

/** A problem of the catalogue. `status` is given where HTTP has a better word than the code's own. */
export function problem(
  code: string,
  detail: string,
  more: { hint?: string | undefined; pointer?: string | undefined; status?: number } = {},
): Problem {
  const entry = problemCatalogue.find((each) => each.code === code)
  if (entry === undefined) throw new TypeError(`${code} is not in the catalogue of problems`)
  return {
    type: `/problems/${code}`,
    title: titleOf(entry),
    status: more.status ?? entry.status,
    code,
    detail,
    ...(more.hint ? { hint: more.hint } : {}),
    ...(more.pointer === undefined ? {} : { pointer: more.pointer }),
  }
}

/** A code's name as people read it. */
export function titleOf({ name }: ErrorEntry): string {
  const words = name.replaceAll('_', ' ')
  return words.charAt(0).toUpperCase() + words.slice(1)
}

/** What answers an error. The cause of a failure goes to the log, not to the caller. */
export function problemOf(thrown: unknown): Problem {
  if (thrown instanceof ProblemError) return thrown.problem
  const error = asRefusal(thrown)
  if (error instanceof FencepostError) {
    const detail = error.detail ? `${error.message} (${error.detail})` : error.message
    return problem(error.code, detail, { hint: error.hint, pointer: pointerOf(error) })
  }
  if (error instanceof HTTPException) return problemOfHttp(error)
  if (isConnectionError(error)) {
    return problem(UNAVAILABLE, 'The database does not answer.', {
      hint: 'Nothing is known to be lost: repeat the request, with an idempotency key if it enqueues.',
    })
  }
  if (error instanceof DatabaseError) return problemOfDatabase(error)
  return problem(INTERNAL, 'The request failed.', { hint: 'The log of the server says why.' })
}

/** A problem as a response. */
export function respond(
  { status, ...rest }: Problem,
  headers: Readonly<Record<string, string>> = {},
): Response {
  const retry = status === 429 || status === 503 ? { 'retry-after': RETRY_AFTER } : undefined
  return new Response(`${JSON.stringify({ status, ...rest })}\n`, {
    status,
    headers: { 'content-type': 'application/problem+json', ...retry, ...headers },
  })
}

/** When a refused or failed request may succeed, in seconds. */
const RETRY_AFTER = '2'

/** What was refused in the body, as a JSON pointer, where the engine says it in words. */
function pointerOf({ code, message, detail = '' }: FencepostError): string | undefined {
  if (code === 'JE008') {
    const place = DEFINITION_PLACE.exec(detail)?.[1]
    return (
      place &&
      `#/definition/${place
        .split(/[.[\]]+/)
        .filter(Boolean)
        .join('/')}`
    )
  }
  // The engine counts jobs of a list from 1; a JSON pointer counts from 0.
  const job = /\bjob (\d+) of the list\b/.exec(`${message} ${detail}`)?.[1]
  return job === undefined ? undefined : `#/${Number(job) - 1}`
}

/** `at tasks.charge.after[1]: received …`. Names of tasks have no dots. */
const DEFINITION_PLACE =
  /^(?:at )?((?:tasks|input|on_failure|description)(?:\.[\w-]+|\[\d+\])*)(?=:|$)/

function problemOfHttp({ status, message }: HTTPException): Problem {
  if (status === 415) {
    return problem('JE003', 'The content type is not one that this route takes.', {
      status,
      hint: 'Send JSON with content-type: application/json.',
    })
  }
  if (status >= 400 && status < 500) return problem('JE003', message, { status })
  return problem(INTERNAL, 'The request failed.', { hint: 'The log of the server says why.' })
}

function problemOfDatabase({ code }: DatabaseError): Problem {
  switch (code.slice(0, 2)) {
    case '40': // deadlock, serialization
    case '53': // out of memory, disk, connections
    case '55': // a lock was not to be had
    case '57': // cancelled by timeout or by an administrator
      return problem(UNAVAILABLE, 'The database could not do it now.')
    default:
      return problem(
        INTERNAL,
        'The database refused a statement that it should not have been sent.',
      )
  }
}
