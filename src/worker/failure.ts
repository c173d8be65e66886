import { type Duration, interval } from '../definitions/duration.ts'
import { storable } from '../storable.ts'
import { AttemptAbortedError } from './abort.ts'

/** Thrown by a handler to say that trying again is useless: the job is dead-lettered at once. */
export class PermanentError extends Error {
  override readonly name = 'PermanentError'
}

/** Thrown by a handler to say when to try again, instead of the backoff of its type. */
export class RetryError extends Error {
  override readonly name = 'RetryError'
  /** The wait before the next attempt. */
  readonly retryIn: Duration

  /** @throws FencepostError JE003 when the duration cannot be read */
  constructor(message: string, retryIn: Duration, options?: ErrorOptions) {
    super(message, options)
    interval(retryIn)
    this.retryIn = retryIn
  }
}

/** A failed attempt as the engine stores it. */
export interface Failure {
  /** What went wrong, for people. */
  readonly error: string
  /** What else is known of it: JSON text. */
  readonly details: string | null
  /** An SQL interval; null for the backoff of the type. */
  readonly retryIn: string | null
  readonly permanent: boolean
}

/** The most characters of an error's text that are sent: at most 64 KiB, whatever the characters are. */
const TEXT = 16_000
/** The same for each text among the details. */
const DETAIL = 8_000
/** How far chains of causes are followed. */
const DEPTH = 5

/**
 * Makes of anything that can be thrown (also undefined, cyclic or hostile objects, texts with NUL, of
 * any size) a failure that can be stored. Never throws.
 */
export function describeFailure(thrown: unknown): Failure {
  const permanent = thrown instanceof PermanentError
  try {
    return {
      error: storable(summary(thrown), TEXT),
      details: JSON.stringify(details(thrown, DEPTH)),
      retryIn: retryIn(thrown),
      permanent,
    }
  } catch {
    return plainFailure('the handler threw something that cannot be described', permanent)
  }
}

/** A failure with no more than a text. */
export function plainFailure(error: string, permanent = false): Failure {
  return { error: storable(error, TEXT), details: null, retryIn: null, permanent }
}

function retryIn(thrown: unknown): string | null {
  if (thrown instanceof RetryError) return interval(thrown.retryIn)
  if (thrown instanceof AttemptAbortedError && thrown.why === 'stopping') return interval(0)
  return null
}

function summary(thrown: unknown): string {
  if (thrown instanceof Error)
    return String(thrown.message) || reasonsIn(thrown) || String(thrown.name)
  if (typeof thrown === 'string') return thrown || 'the handler threw an empty text'
  if (thrown instanceof Promise) return 'the handler threw a promise'
  if (thrown !== null && typeof thrown === 'object') {
    const { message } = thrown as { message?: unknown }
    if (typeof message === 'string' && message !== '') return message
    return `the handler threw ${kindOf(thrown)}: ${jsonOf(thrown)}`
  }
  return `the handler threw ${String(thrown)}`
}

/** What several errors in one say: that none of a host's addresses could be reached has no words of its own. */
function reasonsIn(thrown: Error): string {
  if (!(thrown instanceof AggregateError)) return ''
  return thrown.errors.slice(0, 5).map(summary).join('; ')
}

function kindOf(thrown: object): string {
  const { name } = thrown.constructor ?? {}
  return typeof name === 'string' && name !== 'Object' ? `an object (${name})` : 'an object'
}

function jsonOf(thrown: object): string {
  try {
    return JSON.stringify(thrown) ?? String(thrown)
  } catch {
    return 'not JSON'
  }
}

interface Details {
  name?: string
  message?: string
  code?: string
  stack?: string
  cause?: Details
  errors?: Details[]
  value?: string
}

function details(thrown: unknown, depth: number): Details {
  if (!(thrown instanceof Error)) {
    return { value: storable(typeof thrown === 'string' ? thrown : summary(thrown), DETAIL) }
  }
  const { code } = thrown as { code?: unknown }
  const told: Details = { name: storable(String(thrown.name), 200) }
  told.message = storable(String(thrown.message), DETAIL)
  if (typeof code === 'string' || typeof code === 'number') told.code = storable(String(code), 200)
  if (typeof thrown.stack === 'string') told.stack = storable(thrown.stack, DETAIL)
  if (depth > 0 && thrown.cause !== undefined) told.cause = details(thrown.cause, depth - 1)
  if (depth > 0 && thrown instanceof AggregateError) {
    told.errors = thrown.errors.slice(0, 5).map((each) => details(each, depth - 1))
  }
  return told
}
