import {
  anything,
  type Check,
  checkOptions,
  flag,
  numberFrom,
  shown,
  textUpTo,
  wholeNumber,
} from '../options.ts'
import { type Duration, durationFrom, interval } from './duration.ts'

/** When and how often a failed attempt is followed by another. */
export interface RetryPolicy {
  /** Attempts that count before a job is dead-lettered. Default 5. */
  readonly maxAttempts?: number | undefined
  /** The wait before the second attempt. Default 2 s. */
  readonly baseDelay?: Duration | undefined
  /** How much longer each further wait is. Default 2. */
  readonly factor?: number | undefined
  /** The longest wait. Default 1 h. */
  readonly maxDelay?: Duration | undefined
  /** The share of a wait that is drawn at random, 0 to 1. Default 0.5: from half to all of it. */
  readonly jitter?: number | undefined
}

/**
 * Settings of a job type, kept in the database and so the same for every worker. A worker declares
 * them when it starts; what an operator has set since stays.
 */
export interface TypeSettings {
  readonly retry?: RetryPolicy | undefined
  /** How long one attempt may run. Default: as long as its worker keeps the lease alive. */
  readonly timeout?: Duration | undefined
  /** How many jobs of the type may run at once, over all workers. Default: no limit. */
  readonly maxRunning?: number | undefined
  /** How many jobs may wait before enqueues are refused with JE007. Default: no limit. */
  readonly maxPending?: number | undefined
  /** The largest payload, and the largest result, in bytes of JSON. Default 1 MiB. */
  readonly maxPayloadBytes?: number | undefined
  /** An SQL/JSON path predicate that payloads must satisfy, such as `$.to like_regex "@"`. */
  readonly payloadCheck?: string | undefined
  /** How long finished jobs are kept. Default 7 days. */
  readonly keepFinished?: Duration | undefined
  /** How many dead letters of the type raise the shipped alert. Default 100. */
  readonly deadLetterAlert?: number | undefined
  /** Whether each enqueue writes an event `job.enqueued`. Default false. */
  readonly publishEnqueued?: boolean | undefined
  /** Whether each start of an attempt writes an event `job.started`. Default false. */
  readonly publishStarted?: boolean | undefined
}

const retryChecks: Readonly<Record<keyof RetryPolicy, Check>> = {
  maxAttempts: wholeNumber(1, 1_000_000),
  baseDelay: durationFrom(0),
  factor: numberFrom(1, 100),
  maxDelay: durationFrom(0),
  jitter: numberFrom(0, 1),
}

/** The checks of settings among other options of a definition. */
export const settingChecks: Readonly<Record<keyof TypeSettings, Check>> = {
  retry: anything,
  timeout: durationFrom(1),
  maxRunning: wholeNumber(1),
  maxPending: wholeNumber(1),
  maxPayloadBytes: wholeNumber(2, 268_435_456),
  payloadCheck: textUpTo(10_000),
  keepFinished: durationFrom(0),
  deadLetterAlert: wholeNumber(1),
  publishEnqueued: flag,
  publishStarted: flag,
}

/**
 * Checks a retry policy.
 *
 * @throws FencepostError JE003
 */
export function checkRetry(what: string, retry: unknown): void {
  if (retry !== undefined) checkOptions(`${what}: retry`, retry, retryChecks)
}

/** Settings by their names in the database; those left out keep the engine's defaults. */
export function storedSettings(settings: TypeSettings): Readonly<Record<string, unknown>> {
  const { retry = {} } = settings
  const all = {
    max_attempts: retry.maxAttempts,
    backoff_base: optionalInterval(retry.baseDelay),
    backoff_factor: retry.factor,
    backoff_cap: optionalInterval(retry.maxDelay),
    backoff_jitter: retry.jitter,
    timeout: optionalInterval(settings.timeout),
    max_running: settings.maxRunning,
    max_pending: settings.maxPending,
    max_payload_bytes: settings.maxPayloadBytes,
    payload_check: settings.payloadCheck,
    keep_finished: optionalInterval(settings.keepFinished),
    dead_letter_alert: settings.deadLetterAlert,
    publish_enqueued: settings.publishEnqueued,
    publish_started: settings.publishStarted,
  }
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined))
}

function optionalInterval(duration: Duration | undefined): string | undefined {
  return duration === undefined ? undefined : interval(duration)
}

const TYPE_NAME = /^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,199}$/

/** The name of a job type, as the engine takes it. */
export const typeName: Check = (value) =>
  typeof value === 'string' && TYPE_NAME.test(value)
    ? undefined
    : `must be a name such as 'email.send': 1 to 200 letters, digits and any of _ . : / -, not ${shown(value)}`
