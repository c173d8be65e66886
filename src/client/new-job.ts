import { adopt, type TransactionHandle } from '../database/adopt.ts'
import type { Queryable } from '../database/database.ts'
import type { NewJob } from '../database/engine.ts'
import { JobDefinition } from '../definitions/define-job.ts'
import { type Duration, durationFrom, interval } from '../definitions/duration.ts'
import { FencepostError } from '../errors.ts'
import {
  anything,
  type Check,
  checkOptions,
  plainObject,
  shown,
  textUpTo,
  wholeNumber,
} from '../options.ts'

/** What a job can be given beside its payload. What is left out takes the default of its type. */
export interface EnqueueOptions {
  /** 0 to 9, higher first. Default 5; equal priorities run in order of enqueue. */
  readonly priority?: number | undefined
  /** Not before this long from now. */
  readonly delay?: Duration | undefined
  /** Not before this time. Give at most one of both. */
  readonly runAt?: Date | string | undefined
  /** The same key for the same type and tenant gives the same job, while that job is kept. */
  readonly idempotencyKey?: string | undefined
  /** How often it is tried before it is dead-lettered. */
  readonly maxAttempts?: number | undefined
  /** The limit of one attempt. */
  readonly timeout?: Duration | undefined
  /** Metadata for machines, such as `traceparent`. */
  readonly headers?: Readonly<Record<string, unknown>> | undefined
  /** Whose job it is. */
  readonly tenant?: string | undefined
}

/** Where a statement runs. */
export interface TransactionOption {
  /**
   * A transaction of the application: of postgres.js, of node-postgres, or anything with
   * `query(text, params)`. What is done commits or vanishes with it. Left out: a transaction of its own.
   * An empty one is refused with JE003.
   */
  readonly tx?: TransactionHandle
}

/** One job of a list. */
export interface JobRequest extends EnqueueOptions {
  /** Its definition, or the name of its type. */
  readonly job: JobDefinition | string
  /** Default `{}`. */
  readonly payload?: unknown
}

const instant: Check = (value) =>
  typeof value === 'string' || (value instanceof Date && !Number.isNaN(value.getTime()))
    ? undefined
    : 'must be a valid Date or the text of a time'

const optionChecks: Readonly<Record<keyof EnqueueOptions, Check>> = {
  priority: wholeNumber(0, 9),
  delay: durationFrom(0),
  runAt: instant,
  idempotencyKey: textUpTo(500),
  maxAttempts: wholeNumber(1, 1_000_000),
  timeout: durationFrom(1),
  headers: plainObject,
  tenant: (value) => (typeof value === 'string' ? undefined : 'must be a text'),
}

/** The checks of an enqueue's options. */
export const enqueueChecks = { ...optionChecks, tx: anything }
/** The checks of a batch's options. */
export const batchChecks = {
  priority: optionChecks.priority,
  delay: optionChecks.delay,
  tenant: optionChecks.tenant,
  tx: anything,
}
const requestChecks = { job: anything, payload: anything, ...optionChecks }

/** The name of the type of a definition, or the name itself. */
export function typeOf(job: JobDefinition | string): string {
  if (job instanceof JobDefinition) return job.type
  if (typeof job === 'string') return job
  throw new FencepostError(
    'JE003',
    'a job is a definition of defineJob() or the name of its type',
    {
      detail: `received ${shown(job)}`,
      hint: "For example 'email.send'.",
    },
  )
}

/**
 * A payload that fits its definition. What is stored is what was given; the handler gets what the
 * schema makes of it.
 *
 * @throws FencepostError JE006 when it does not fit
 */
export async function checkedPayload(
  job: JobDefinition | string,
  payload: unknown = {},
): Promise<unknown> {
  if (job instanceof JobDefinition) await job.parse(payload)
  return payload
}

/** A job as the engine takes it. Options were checked. */
export async function newJob(
  job: JobDefinition | string,
  payload: unknown,
  options: EnqueueOptions,
): Promise<NewJob> {
  return {
    type: typeOf(job),
    payload: await checkedPayload(job, payload),
    priority: options.priority,
    run_at: options.runAt,
    delay: options.delay === undefined ? undefined : interval(options.delay),
    idempotency_key: options.idempotencyKey,
    max_attempts: options.maxAttempts,
    timeout: options.timeout === undefined ? undefined : interval(options.timeout),
    headers: options.headers,
    tenant: options.tenant,
  }
}

/** The jobs of a list as the engine takes them. */
export function newJobs(requests: readonly JobRequest[]): Promise<NewJob[]> {
  return Promise.all(
    requests.map((request, index) => {
      checkOptions(`enqueueMany, job ${index + 1}`, request, requestChecks)
      const { job, payload, ...options } = request
      return newJob(job, payload, options)
    }),
  )
}

/**
 * The application's transaction, or the database when the option is left out. One that is there and empty is a
 * mistake: what was meant to vanish with the transaction would stay.
 *
 * @throws FencepostError JE003 when `tx` is given and is no transaction
 */
export function on(db: Queryable, options: TransactionOption): Queryable {
  return Object.hasOwn(options, 'tx') ? adopt(options.tx as TransactionHandle) : db
}
