import { FencepostError } from '../errors.ts'
import { type Check, checkOptions, textUpTo } from '../options.ts'
import type { JobDefinition } from './define-job.ts'
import { inputSchema } from './input-schema.ts'
import { isSchema, type Schema } from './schema.ts'
import {
  type AnyJob,
  type ApprovalOptions,
  type ChildOptions,
  compact,
  compiledTask,
  type Decision,
  type JobTaskOptions,
  type MapOptions,
  type SignalOptions,
  type TaskKind,
  type TaskOptions,
  type TimerOptions,
  taskChecks,
} from './workflow-tasks.ts'

/** Outputs of a workflow's tasks, by name. */
export type Outputs = Record<string, unknown>

// biome-ignore lint/suspicious/noExplicitAny: any workflow, whatever it takes and returns
export type AnyWorkflow = WorkflowDefinition<any, any, any>

/**
 * What a run of a workflow returns: the outputs of the tasks that no other waits for. A task that was
 * skipped has none.
 */
export type RunOutput<Workflow> =
  // biome-ignore lint/suspicious/noExplicitAny: whatever it takes
  Workflow extends WorkflowDefinition<any, infer Tasks, infer Last>
    ? Partial<Pick<Tasks, Last & keyof Tasks>>
    : Outputs

type ResultOf<Job> =
  // biome-ignore lint/suspicious/noExplicitAny: whatever it takes
  Job extends JobDefinition<string, any, any, infer Result> ? Awaited<Result> : unknown
type ChildOutput<Child> = Child extends AnyWorkflow ? RunOutput<Child> : unknown

/** The workflow with one more task, which is the last of its branch. */
type With<
  Input,
  Tasks extends Outputs,
  Last extends string,
  Name extends string,
  Output,
  Parent,
> = WorkflowDefinition<Input, Tasks & Record<Name, Output>, Exclude<Last, Parent> | Name>

/** What {@link defineWorkflow} takes besides the name. */
export interface WorkflowOptions<Input> {
  /** What inputs look like. A schema of zod is stored with the definition, so that the database checks it too. */
  readonly input?: Schema<Input, unknown> | undefined
  /** `compensate` undoes what a failed run has done. Default `fail`. */
  readonly onFailure?: 'fail' | 'compensate' | undefined
  readonly description?: string | undefined
}

/**
 * A workflow: a graph of tasks, each a job or a wait. Tasks are added one after another, so that
 * `after` can only name tasks that exist: a cycle cannot be written down. Every method returns a new
 * definition. It compiles to the JSON that `fencepost.publish_workflow` takes.
 *
 * `Tasks` are the outputs by task, `Last` the tasks that no other waits for.
 */
export class WorkflowDefinition<
  Input = unknown,
  Tasks extends Outputs = Outputs,
  Last extends string = string,
> {
  /** For the types alone. */
  declare readonly '~types'?: { readonly input: Input; readonly tasks: Tasks; readonly last: Last }

  readonly name: string
  readonly #options: WorkflowOptions<Input>
  readonly #tasks: ReadonlyMap<string, Readonly<Record<string, unknown>>>

  /** Use {@link defineWorkflow}. */
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
  task<
    const Name extends string,
    Job extends AnyJob | string,
    const Parent extends keyof Tasks & string = never,
  >(
    name: Name,
    options: JobTaskOptions<Parent, Job>,
  ): With<Input, Tasks, Last, Name, ResultOf<Job>, Parent> {
    return this.#with(name, 'job', options)
  }

  /** Adds a job for each element of an array. */
  map<
    const Name extends string,
    Job extends AnyJob | string,
    const Parent extends keyof Tasks & string = never,
  >(
    name: Name,
    options: MapOptions<Parent, Job>,
  ): With<Input, Tasks, Last, Name, ResultOf<Job>[], Parent> {
    return this.#with(name, 'map', options)
  }

  /** Adds a decision of a person. */
  approval<const Name extends string, const Parent extends keyof Tasks & string = never>(
    name: Name,
    options: ApprovalOptions<Parent> = {},
  ): With<Input, Tasks, Last, Name, Decision, Parent> {
    return this.#with(name, 'approval', options)
  }

  /** Adds a wait for a time. */
  timer<const Name extends string, const Parent extends keyof Tasks & string = never>(
    name: Name,
    options: TimerOptions<Parent>,
  ): With<Input, Tasks, Last, Name, unknown, Parent> {
    return this.#with(name, 'timer', options)
  }

  /** Adds a wait for a signal. */
  signal<const Name extends string, const Parent extends keyof Tasks & string = never>(
    name: Name,
    options: SignalOptions<Parent>,
  ): With<Input, Tasks, Last, Name, unknown, Parent> {
    return this.#with(name, 'signal', options)
  }

  /** Adds a run of another workflow. */
  workflow<
    const Name extends string,
    Child extends AnyWorkflow | string,
    const Parent extends keyof Tasks & string = never,
  >(
    name: Name,
    options: ChildOptions<Parent, Child>,
  ): With<Input, Tasks, Last, Name, ChildOutput<Child>, Parent> {
    return this.#with(name, 'workflow', options)
  }

  /** The definition as the database takes it. */
  toJSON(): Record<string, unknown> {
    const { input, onFailure, description } = this.#options
    return compact({
      description,
      input: input === undefined ? undefined : inputSchema(input),
      on_failure: onFailure,
      tasks: Object.fromEntries(this.#tasks),
    })
  }

  /**
   * The input of a run, checked. What is stored is what was given.
   *
   * @throws FencepostError JE003 when it does not fit the schema
   */
  async parse(input: unknown): Promise<unknown> {
    const result = await this.#options.input?.['~standard'].validate(input)
    if (result === undefined || result.issues === undefined) return input
    const [issue] = result.issues
    const place = ['input', ...(issue?.path ?? [])].map(keyOf).join('.')
    throw new FencepostError('JE003', `the input of ${this.name} is invalid: ${issue?.message}`, {
      detail: `at ${place}`,
      hint: 'It must satisfy the schema of the definition.',
    })
  }

  #with<Added extends Outputs, Ends extends string>(
    name: string,
    kind: TaskKind,
    options: object,
  ): WorkflowDefinition<Input, Added, Ends> {
    const what = `workflow ${this.name}, task ${name}`
    checkOptions(what, options, taskChecks[kind])
    if (this.#tasks.has(name)) {
      throw new FencepostError('JE003', `${what}: there is a task of that name already`, {
        detail: `received ${name}`,
        hint: 'Give each task a name of its own.',
      })
    }
    for (const parent of (options as TaskOptions<string>).after ?? []) {
      if (this.#tasks.has(parent)) continue
      throw new FencepostError('JE003', `${what}: it waits for ${parent}, which does not exist`, {
        detail: `received after = ${parent}`,
        hint: 'Add the tasks that others wait for first.',
      })
    }
    const tasks = new Map(this.#tasks).set(name, compiledTask(kind, options))
    return new WorkflowDefinition(this.name, this.#options, tasks)
  }
}

function keyOf(part: PropertyKey | { readonly key: PropertyKey }): string {
  return String(typeof part === 'object' ? part.key : part)
}

const checks = {
  input: ((value) => (isSchema(value) ? undefined : 'must be a schema')) as Check,
  onFailure: ((value) =>
    value === 'fail' || value === 'compensate' ? undefined : 'must be fail or compensate') as Check,
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
): WorkflowDefinition<Input, Record<never, never>, never> {
  checkOptions(`defineWorkflow ${name}`, options, checks)
  return new WorkflowDefinition<Input, Record<never, never>, never>(name, options)
}
