import { z } from 'zod'
import { FencepostError } from '../errors.ts'
import { anything, type Check, checkOptions, textUpTo, wholeNumber } from '../options.ts'
import type { JobDefinition } from './define-job.ts'
import { type Duration, durationFrom, interval } from './duration.ts'
import { isSchema, type Schema } from './schema.ts'

/** Outputs of a workflow's tasks, by name. */
export type Outputs = Record<string, unknown>

// biome-ignore lint/suspicious/noExplicitAny: any job, whatever it takes and returns
type AnyJob = JobDefinition<string, any, any, any>
type OutputOf<Job> =
  Job extends JobDefinition<string, never, never, infer Result> ? Awaited<Result> : unknown

/** What every task may say. `Names` are the tasks that exist so far. */
export interface TaskOptions<Names extends string> {
  /** The tasks that it waits for. */
  readonly after?: readonly Names[] | undefined
  /** An SQL/JSON path predicate, such as `$.input.amount > 1000`: when it is false the task is skipped. */
  readonly when?: string | undefined
  /** `continue` lets the run go on although the task failed; its error is at `$.errors.<task>`. Default `fail`. */
  readonly onFailure?: 'fail' | 'continue' | undefined
  readonly description?: string | undefined
}

/** A task that is a job. */
export interface JobTaskOptions<Names extends string, Job> extends TaskOptions<Names> {
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
  /** The job that undoes it when the run fails and the workflow compensates. */
  readonly compensate?: AnyJob | string | undefined
}

/** A task that waits for a person. Its output says who decided what. */
export interface ApprovalOptions<Names extends string> extends TaskOptions<Names> {
  readonly expiresAfter?: Duration | undefined
  /** Default `reject`. */
  readonly onExpiry?: 'reject' | 'approve' | 'fail' | undefined
  /** Default `fail`. */
  readonly onReject?: 'fail' | 'skip' | 'continue' | undefined
}

/** A task that waits for a time: give one of both. */
export interface TimerOptions<Names extends string> extends TaskOptions<Names> {
  readonly delay?: Duration | undefined
  /** An SQL/JSON path to a time. */
  readonly until?: string | undefined
}

/** A task that waits for a signal. Its output is the signal's payload. */
export interface SignalOptions<Names extends string> extends TaskOptions<Names> {
  readonly signal: string
  readonly expiresAfter?: Duration | undefined
}

/** A task that runs a job for each element of an array. Its output is the array of their results. */
export interface MapOptions<Names extends string, Job>
  extends Omit<JobTaskOptions<Names, Job>, 'compensate'> {
  /** An SQL/JSON path to the array. */
  readonly over: string
  /** How many run at once. Default: all. */
  readonly maxParallel?: number | undefined
}

/** A task that runs another workflow. Its output is that run's. */
export interface ChildOptions<Names extends string> extends TaskOptions<Names> {
  readonly workflow: WorkflowDefinition | string
  /** Default: the latest when the task starts. */
  readonly version?: number | undefined
  readonly input?: unknown
}

/** What {@link defineWorkflow} takes besides the name. */
export interface WorkflowOptions<Input> {
  /** What inputs look like. A schema of zod is stored with the definition, so that the database checks it too. */
  readonly input?: Schema<Input, unknown> | undefined
  /** `compensate` undoes what a failed run has done. Default `fail`. */
  readonly onFailure?: 'fail' | 'compensate' | undefined
  readonly description?: string | undefined
}

/** The decision of an approval, as its task returns it. */
export interface Decision {
  readonly approved: boolean
  readonly decision: 'approved' | 'rejected' | 'expired'
  readonly decided_by: string
  readonly decided_at: string
  readonly comment?: string
  readonly data?: unknown
}

/**
 * A workflow: a graph of tasks, each a job or a wait. Tasks are added one after another, so that
 * `after` can only name tasks that exist: a cycle cannot be written down. Every method returns a new
 * definition. It compiles to the JSON that `fencepost.publish_workflow` takes.
 */
export class WorkflowDefinition<Input = unknown, Tasks extends Outputs = Outputs> {
  readonly name: string
  readonly #options: WorkflowOptions<Input>
  readonly #tasks: ReadonlyMap<string, Readonly<Record<string, unknown>>>

  /** Outputs by task, for the types alone. */
  declare readonly outputs: Tasks

  constructor(
    name: string,
    options: WorkflowOptions<Input>,
    tasks: ReadonlyMap<string, Readonly<Record<string, unknown>>> = new Map(),
  ) {
    this.name = name
    this.#options = options
    this.#tasks = tasks
  }

  /** Adds a task that is a job. */
  task<const Name extends string, Job extends AnyJob | string>(
    name: Name,
    options: JobTaskOptions<keyof Tasks & string, Job>,
  ): WorkflowDefinition<Input, Tasks & Record<Name, OutputOf<Job>>> {
    return this.#with(name, 'job', options, jobChecks)
  }

  /** Adds a decision of a person. */
  approval<const Name extends string>(
    name: Name,
    options: ApprovalOptions<keyof Tasks & string> = {},
  ): WorkflowDefinition<Input, Tasks & Record<Name, Decision>> {
    return this.#with(name, 'approval', options, approvalChecks)
  }

  /** Adds a wait for a time. */
  timer<const Name extends string>(
    name: Name,
    options: TimerOptions<keyof Tasks & string>,
  ): WorkflowDefinition<Input, Tasks & Record<Name, string>> {
    return this.#with(name, 'timer', options, timerChecks)
  }

  /** Adds a wait for a signal. */
  signal<const Name extends string>(
    name: Name,
    options: SignalOptions<keyof Tasks & string>,
  ): WorkflowDefinition<Input, Tasks & Record<Name, unknown>> {
    return this.#with(name, 'signal', options, signalChecks)
  }

  /** Adds a job for each element of an array. */
  map<const Name extends string, Job extends AnyJob | string>(
    name: Name,
    options: MapOptions<keyof Tasks & string, Job>,
  ): WorkflowDefinition<Input, Tasks & Record<Name, OutputOf<Job>[]>> {
    return this.#with(name, 'map', options, mapChecks)
  }

  /** Adds a run of another workflow. */
  workflow<const Name extends string>(
    name: Name,
    options: ChildOptions<keyof Tasks & string>,
  ): WorkflowDefinition<Input, Tasks & Record<Name, unknown>> {
    return this.#with(name, 'workflow', options, childChecks)
  }

  /** The definition as the database takes it. */
  toJSON(): Record<string, unknown> {
    const { input, onFailure, description } = this.#options
    return compact({
      input: input === undefined ? undefined : jsonSchema(input),
      on_failure: onFailure,
      description,
      tasks: Object.fromEntries(this.#tasks),
    })
  }

  /**
   * The input of a run, checked.
   *
   * @throws FencepostError JE003 when it does not fit the schema
   */
  async parse(input: unknown): Promise<unknown> {
    const result = await this.#options.input?.['~standard'].validate(input)
    if (result === undefined || result.issues === undefined) return input
    const [issue] = result.issues
    throw new FencepostError('JE003', `the input of ${this.name} is invalid: ${issue?.message}`, {
      detail: `at ${['input', ...(issue?.path ?? [])].map(keyOf).join('.')}`,
    })
  }

  #with<Added extends Outputs>(
    name: string,
    kind: string,
    options: object,
    checks: Readonly<Record<string, Check>>,
  ): WorkflowDefinition<Input, Added> {
    const what = `workflow ${this.name}, task ${name}`
    checkOptions(what, options, checks)
    if (this.#tasks.has(name)) {
      throw new FencepostError('JE003', `${what}: there is a task of that name already`)
    }
    for (const parent of (options as TaskOptions<string>).after ?? []) {
      if (this.#tasks.has(parent)) continue
      throw new FencepostError('JE003', `${what}: it waits for ${parent}, which does not exist`, {
        hint: 'Add the tasks that others wait for first.',
      })
    }
    const tasks = new Map(this.#tasks).set(name, compile(kind, options))
    return new WorkflowDefinition(this.name, this.#options, tasks)
  }
}

/** A task's options in the words of the database. */
function compile(kind: string, options: object): Record<string, unknown> {
  const given = options as Readonly<Record<string, unknown>>
  const time = (name: string) =>
    given[name] === undefined ? undefined : interval(given[name] as Duration)
  const nameOf = (value: unknown) =>
    typeof value === 'object' && value !== null
      ? ((value as { type?: string }).type ?? (value as { name?: string }).name)
      : value
  const retry = given.retry as JobTaskOptions<string, string>['retry']
  return compact({
    kind: kind === 'job' ? undefined : kind,
    type: nameOf(given.type),
    after: given.after,
    when: given.when,
    input: given.input,
    retry: retry === undefined ? undefined : { max_attempts: retry.maxAttempts },
    timeout: time('timeout'),
    priority: given.priority,
    compensate: nameOf(given.compensate),
    on_failure: given.onFailure,
    expires_after: time('expiresAfter'),
    on_expiry: given.onExpiry,
    on_reject: given.onReject,
    delay: time('delay'),
    until: given.until,
    signal: given.signal,
    over: given.over,
    max_parallel: given.maxParallel,
    workflow: nameOf(given.workflow),
    version: given.version,
    description: given.description,
  })
}

function compact(object: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined))
}

function keyOf(part: PropertyKey | { readonly key: PropertyKey }): string {
  return String(typeof part === 'object' ? part.key : part)
}

/** The JSON Schema of an input; schemas of other libraries than zod are checked in TypeScript alone. */
function jsonSchema(schema: Schema): unknown {
  if (schema['~standard'].vendor !== 'zod') return undefined
  const { $schema: _, ...rest } = z.toJSONSchema(schema as unknown as z.ZodType, {
    unrepresentable: 'any',
    io: 'input',
  })
  return rest
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
  typeof value === 'string' || (typeof value === 'object' && value !== null)
    ? undefined
    : 'must be a definition or a name'
const retry: Check = (value) =>
  value !== null &&
  typeof value === 'object' &&
  Object.keys(value).join() === 'maxAttempts' &&
  wholeNumber(1)((value as { maxAttempts: unknown }).maxAttempts) === undefined
    ? undefined
    : 'must be { maxAttempts: a whole number of at least 1 }; other settings belong to the type'
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
const jobChecks = { ...work, compensate: named }
const mapChecks = { ...work, over: path, maxParallel: wholeNumber(1) }
const approvalChecks = {
  ...common,
  expiresAfter: wait,
  onExpiry: oneOf('reject', 'approve', 'fail'),
  onReject: oneOf('fail', 'skip', 'continue'),
}
const timerChecks = { ...common, delay: wait, until: path }
const signalChecks = { ...common, signal: textUpTo(200), expiresAfter: wait }
const childChecks = { ...common, workflow: named, version: wholeNumber(1), input: anything }
const workflowChecks = {
  input: ((value) => (isSchema(value) ? undefined : 'must be a schema')) as Check,
  onFailure: oneOf('fail', 'compensate'),
  description: textUpTo(10_000),
}

/**
 * Begins a workflow. Publish it with {@link Fencepost.publish}, start runs with {@link Fencepost.start}.
 *
 * @throws FencepostError JE003 for an option that is unknown or makes no sense
 */
export function defineWorkflow<Input = unknown>(
  name: string,
  options: WorkflowOptions<Input> = {},
  // biome-ignore lint/complexity/noBannedTypes: no tasks yet
): WorkflowDefinition<Input, {}> {
  checkOptions(`defineWorkflow ${name}`, options, workflowChecks)
  return new WorkflowDefinition<Input, Record<never, never>>(name, options)
}
