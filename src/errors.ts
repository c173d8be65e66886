/** What is fixed about an error code, in every language and surface. */
export interface ErrorEntry {
  /** The SQLSTATE, class JE. */
  readonly code: string
  /** A short name in snake case, the same in SQL, TypeScript and HTTP. */
  readonly name: string
  /** The HTTP status that answers with it. */
  readonly status: number
  /** What it means, in a sentence. */
  readonly meaning: string
}

/**
 * Every error that Fencepost raises on purpose. The same list stands in SQL as the view
 * `fencepost.error_codes`; a test compares the two.
 */
export const errorCatalogue = [
  {
    code: 'JE001',
    name: 'lease_lost',
    status: 409,
    meaning:
      'The job is not (or no longer) leased under this token: another attempt owns it, or it has ended.',
  },
  {
    code: 'JE002',
    name: 'not_found',
    status: 404,
    meaning: 'Nothing of that id or name exists.',
  },
  {
    code: 'JE003',
    name: 'invalid_argument',
    status: 400,
    meaning: 'An argument is missing, malformed or out of range.',
  },
  {
    code: 'JE004',
    name: 'illegal_transition',
    status: 409,
    meaning: 'The thing exists, but its present state does not allow this.',
  },
  {
    code: 'JE005',
    name: 'idempotency_conflict',
    status: 422,
    meaning: 'The idempotency key was already used for a job with another payload.',
  },
  {
    code: 'JE006',
    name: 'payload_rejected',
    status: 422,
    meaning: 'The payload or result is too large or does not satisfy the check of its type.',
  },
  {
    code: 'JE007',
    name: 'enqueue_refused',
    status: 429,
    meaning: 'The type does not accept jobs now, or its queue is full.',
  },
  {
    code: 'JE008',
    name: 'definition_invalid',
    status: 422,
    meaning: 'A workflow definition is invalid.',
  },
  {
    code: 'JE009',
    name: 'not_allowed',
    status: 403,
    meaning: 'This tenant or role may not do that.',
  },
  {
    code: 'JE010',
    name: 'worker_lost',
    status: 409,
    meaning: 'The worker is unknown, was declared lost or has stopped: it must register anew.',
  },
  {
    code: 'JE011',
    name: 'protocol_mismatch',
    status: 503,
    meaning: 'The client is too old or too new for this schema.',
  },
] as const satisfies readonly ErrorEntry[]

/** A code of the catalogue. */
export type ErrorCode = (typeof errorCatalogue)[number]['code']
/** A name of the catalogue. */
export type ErrorName = (typeof errorCatalogue)[number]['name']

const byCode = new Map<string, (typeof errorCatalogue)[number]>(
  errorCatalogue.map((entry) => [entry.code, entry]),
)

/** True for the codes of the catalogue. */
export function isErrorCode(code: unknown): code is ErrorCode {
  return typeof code === 'string' && byCode.has(code)
}

/** What a {@link FencepostError} carries beside its code and message. */
export interface ErrorContext {
  /** What was received. */
  readonly detail?: string | undefined
  /** What would be right, or what to do. */
  readonly hint?: string | undefined
  /** The error beneath; for one that the database raised, its `DatabaseError`. */
  readonly cause?: unknown
}

/**
 * An error of the catalogue, raised by the engine in SQL or, for arguments that cannot be sent at
 * all, before it. Tell them apart by `code`.
 */
export class FencepostError extends Error {
  readonly code: ErrorCode
  override readonly name: ErrorName
  /** The HTTP status that answers with it. */
  readonly status: number
  readonly detail: string | undefined
  readonly hint: string | undefined

  constructor(code: ErrorCode, message: string, { detail, hint, cause }: ErrorContext = {}) {
    super(message, cause === undefined ? undefined : { cause })
    const entry = byCode.get(code)
    if (entry === undefined) throw new TypeError(`${code} is not in the catalogue of errors`)
    this.code = code
    this.name = entry.name
    this.status = entry.status
    this.detail = detail
    this.hint = hint
  }
}
