import { anything, type Check, textUpTo, wholeNumber } from '../options.ts'
import type { JobDefinition } from './define-job.ts'
import type { AnyWorkflow } from './define-workflow.ts'
import { type Duration, durationFrom, interval } from './duration.ts'

// biome-ignore lint/suspicious/noExplicitAny: any job, whatever it takes and returns
export type AnyJob = JobDefinition<string, any, any, any>

/** What every task may say. `Parent` is what it waits for. */
export interface TaskOptions<Parent extends string> {
  /** The tasks that it waits for. */
  readonly after?: readonly Parent[] | undefined
  /**
   * An SQL/JSON path predicate, such as `$.input.amount > 1000`: when it is false the task is skipped, when it is
   * neither true nor false (a text compared with a number) the task fails.
   */
  readonly when?: string | undefined
  /** `continue` lets the run go on although the task failed; its error is at `$.errors.<task>`. Default `fail`. */
  readonly onFailure?: 'fail' | 'continue' | undefined
  readonly description?: string | undefined
}

/** What tasks that run jobs may say. */
interface WorkOptions<Parent extends string, Job> extends TaskOptions<Parent> {
  /** The job's definition, or the name of its type. */
  readonly type: Job
  /**
   * Builds the payload: texts that start with `$` are SQL/JSON paths over `{input, tasks, errors, run}`,
   * `$$` begins a literal dollar, the rest is literal. Default: the run's input and the parents' outputs.
   */
  readonly input?: unknown
  readonly retry?: { readonly maxAttempts: number } | undefined
  /** How long one attempt may run. */
  readonly timeout?: Duration | undefined
  /** 0 to 9, higher first. Default: the run's. */
  readonly priority?: number | undefined
}

/** A task that is a job. */
export interface JobTaskOptions<Parent extends string, Job> extends WorkOptions<Parent, Job> {
  /** The job that undoes it when the run fails and the workflow compensates. */
  readonly compensate?: AnyJob | string | undefined
}

/**
 * A task that runs a job for each element of an array. Its output is the array of their results. Paths
 * of its `input` may also read `$.item` and `$.index`; without `input` the payload is `{item, index}`.
 */
export interface MapOptions<Parent extends string, Job> extends WorkOptions<Parent, Job> {
  /** An SQL/JSON path to the array. */
  readonly over: string
  /** How many run at once. Default: all. */
  readonly maxParallel?: number | undefined
}

/** A task that waits for a person. Its output is a {@link Decision}. */
export interface ApprovalOptions<Parent extends string> extends TaskOptions<Parent> {
  /** What is asked, for whoever decides. */
  readonly reason?: string | undefined
  /** How long it is waited for. Default: without an end. */
  readonly expiresAfter?: Duration | undefined
  /** Default `reject`. */
  readonly onExpiry?: 'reject' | 'approve' | 'fail' | undefined
  /** Default `fail`. */
  readonly onReject?: 'fail' | 'skip' | 'continue' | undefined
}

/** A task that waits for a time: a `delay` from when it begins to wait, or `until` a time at an SQL/JSON path. */
export type TimerOptions<Parent extends string> = TaskOptions<Parent> &
  (
    | { readonly delay: Duration; readonly until?: undefined }
    | { readonly until: string; readonly delay?: undefined }
  )

/** A task that waits for a signal. Its output is the signal's payload. */
export interface SignalOptions<Parent extends string> extends TaskOptions<Parent> {
  readonly signal: string
  /** How long it is waited for; then the task fails. Default: without an end. */
  readonly expiresAfter?: Duration | undefined
}

/** A task that runs another workflow. Its output is that run's. */
export interface ChildOptions<Parent extends string, Child = AnyWorkflow | string>
  extends TaskOptions<Parent> {
  readonly workflow: Child
  /** Default: the latest when the task starts. */
  readonly version?: number | undefined
  /** Builds the input of the run, as `input` of a job builds its payload. */
  readonly input?: unknown
}

/** The decision of an approval, as its task returns it. */
export interface Decision {
  readonly approved: boolean
  readonly decision: 'approved' | 'rejected' | 'expired'
  readonly decided_by: string
  /** ISO 8601. */
  readonly decided_at: string
  readonly comment?: string
  readonly data?: unknown
}

const oneOf =
  (...words: readonly string[]): Check =>
  (value) =>
    words.includes(value as string) ? undefined : `must be one of ${words.join(', ')}`
const names: Check = (value) =>
  Array.isArray(value) && value.every((each) => typeof each === 'string')
    ? undefined
    : 'must be an array of task names'
const path = textUpTo(10_000)
const named: Check = (value) =>
  nameOf(value) === undefined ? 'must be a definition or a name' : undefined
const retry: Check = (value) =>
  value !== null &&
  typeof value === 'object' &&
  Object.keys(value).join() === 'maxAttempts' &&
  wholeNumber(1, 1_000_000)((value as { maxAttempts: unknown }).maxAttempts) === undefined
    ? undefined
    : 'must be { maxAttempts: a whole number from 1 to 1000000 }; other settings belong to the type'
const wait = durationFrom(1)

const common = {
  after: names,
  when: path,
  onFailure: oneOf('fail', 'continue'),
  description: textUpTo(10_000),
}
const work = {
  ...common,
  type: named,
  input: anything,
  retry,
  timeout: wait,
  priority: wholeNumber(0, 9),
}

/** The kinds of tasks, and the checks of their options. */
export const taskChecks = {
  job: { ...work, compensate: named },
  map: { ...work, over: path, maxParallel: wholeNumber(1) },
  approval: {
    ...common,
    reason: textUpTo(10_000),
    expiresAfter: wait,
    onExpiry: oneOf('reject', 'approve', 'fail'),
    onReject: oneOf('fail', 'skip', 'continue'),
  },
  timer: { ...common, delay: wait, until: path },
  signal: { ...common, signal: textUpTo(200), expiresAfter: wait },
  workflow: { ...common, workflow: named, version: wholeNumber(1), input: anything },
} as const satisfies Record<string, Readonly<Record<string, Check>>>

/** A kind of task. */
export type TaskKind = keyof typeof taskChecks

/** The options of a task, which were checked, in the words of the database. */
export function compiledTask(kind: TaskKind, options: object): Record<string, unknown> {
  const given = options as Readonly<Record<string, unknown>>
  const time = (name: string) =>
    given[name] === undefined ? undefined : interval(given[name] as Duration)
  const attempts = given.retry as { readonly maxAttempts: number } | undefined
  return compact({
    kind: kind === 'job' ? undefined : kind,
    type: nameOf(given.type),
    workflow: nameOf(given.workflow),
    version: given.version,
    after: given.after,
    when: given.when,
    over: given.over,
    max_parallel: given.maxParallel,
    input: given.input,
    signal: given.signal,
    delay: time('delay'),
    until: given.until,
    reason: given.reason,
    expires_after: time('expiresAfter'),
    on_expiry: given.onExpiry,
    on_reject: given.onReject,
    retry: attempts === undefined ? undefined : { max_attempts: attempts.maxAttempts },
    timeout: time('timeout'),
    priority: given.priority,
    on_failure: given.onFailure,
    compensate: nameOf(given.compensate),
    description: given.description,
  })
}

/** The name of a job's type or of a workflow, given as such or by its definition. */
function nameOf(value: unknown): string | undefined {
  if (typeof value === 'string') return value
  if (typeof value !== 'object' || value === null) return undefined
  const { type, name } = value as { readonly type?: unknown; readonly name?: unknown }
  return [type, name].find((each) => typeof each === 'string') as string | undefined
}

/** The same without what is undefined. */
export function compact(object: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined))
}
