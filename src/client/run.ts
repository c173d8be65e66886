import type { Database } from '../database/database.ts'
import * as engine from '../database/engine.ts'
import type { AnyWorkflow, RunOutput, WorkflowDefinition } from '../definitions/define-workflow.ts'
import { type Camelized, camelized } from './camel.ts'
import { on, type TransactionOption } from './new-job.ts'
import { type ResultOptions, resultOf } from './run-result.ts'

/** A run as it stands. */
export type RunInfo = Camelized<engine.RunRow>
/** A run in a list. */
export type RunListing = Camelized<engine.Listed<engine.RunSummary>>
/** A task of a run as it stands. */
export type TaskInfo = Camelized<engine.ListedTask>
/** Why a task is not running. */
export type TaskReason = engine.TaskReasonRow
/** A task that differs between two versions. */
export type MigrationChange = engine.MigrationRow

/** What narrows the tasks of a run. */
export interface TaskQuery {
  readonly status?: engine.TaskStatus | undefined
  /** The map whose items are meant, or the task whose compensation is. */
  readonly parentTaskId?: number | undefined
}

type TasksOf<Workflow extends AnyWorkflow> = NonNullable<Workflow['~types']>['tasks']

/** How many tasks are asked for at a time. */
const PART = 1_000

/**
 * A run of a workflow, by its id. It holds nothing: every call asks the database. `Workflow` types what it
 * returns.
 */
export class Run<Workflow extends AnyWorkflow = WorkflowDefinition> {
  readonly id: number
  readonly #db: Database

  constructor(db: Database, id: number) {
    this.#db = db
    this.id = id
  }

  /** How it stands; undefined when there is no such run. */
  async status(): Promise<RunInfo | undefined> {
    const row = await engine.getRun(this.#db, this.id)
    return row && camelized(row)
  }

  /**
   * Waits until it ends, and gives its output: the outputs of the tasks that no other waits for, by name.
   * One that was skipped has none. It is asked for after 20 ms, then ever less often, at least once a
   * second; a database that does not answer for a while does not end the waiting.
   *
   * @throws RunFailedError when it failed, was cancelled or undone; RunTimeoutError when it has not
   *   ended in time; FencepostError JE002; the reason of the signal
   */
  result(options: ResultOptions = {}): Promise<RunOutput<Workflow>> {
    return resultOf(this.#db, this.id, options) as Promise<RunOutput<Workflow>>
  }

  /**
   * Its tasks, parents before children; or the items of a map.
   *
   * @throws FencepostError JE002
   */
  async tasks({ status, parentTaskId }: TaskQuery = {}): Promise<TaskInfo[]> {
    const filter = { status, parent_task_id: parentTaskId }
    const tasks: TaskInfo[] = []
    let after: number | undefined
    for (;;) {
      const rows = await engine.listTasks(this.#db, this.id, filter, { max: PART, after })
      for (const { cut, ...task } of rows) if (!cut) tasks.push(camelized(task))
      const last = rows.at(-1)
      if (last === undefined || (rows.length < PART && !last.cut)) return tasks
      after = last.id
    }
  }

  /** What its tasks have returned so far, by name. */
  async outputs(): Promise<Partial<TasksOf<Workflow>>> {
    const tasks = await this.tasks({ status: 'completed' })
    const outputs = tasks.map(({ name, output }) => [name, output] as const)
    return Object.fromEntries(outputs) as Partial<TasksOf<Workflow>>
  }

  /**
   * Why a task is not running, and what would let it go on.
   *
   * @throws FencepostError JE002
   */
  explain(task: keyof TasksOf<Workflow> & string): Promise<TaskReason[]> {
    return engine.explainTask(this.#db, this.id, task)
  }

  /**
   * Holds it and its child runs: what runs now finishes, nothing new starts.
   *
   * @throws FencepostError JE002; JE004 when it has ended
   */
  async pause(reason?: string, options: TransactionOption = {}): Promise<void> {
    return engine.pauseRun(on(this.#db, options), this.id, reason)
  }

  /**
   * Lets it go on.
   *
   * @throws FencepostError JE002; JE004 when it is not paused
   */
  async resume(options: TransactionOption = {}): Promise<void> {
    return engine.resumeRun(on(this.#db, options), this.id)
  }

  /**
   * Cancels it and its child runs: what waits ends at once, handlers that run are told.
   *
   * @throws FencepostError JE002; JE004 when it has completed or was undone
   */
  async cancel(reason?: string, options: TransactionOption = {}): Promise<void> {
    return engine.cancelRun(on(this.#db, options), this.id, reason)
  }

  /**
   * Tries its failed tasks again: dead letters are replayed, other tasks begin anew. How many tasks that are.
   *
   * @throws FencepostError JE002; JE004 when there is nothing to try again
   */
  async retry(options: TransactionOption = {}): Promise<number> {
    return engine.retryRun(on(this.#db, options), this.id)
  }

  /**
   * Begins a new run that takes over the outputs of what completed in this one, but for `fromTask`, tasks
   * that were undone, and what comes after these. This one must have ended, and stays as it is.
   *
   * @throws FencepostError JE002; JE003 when there is no such task; JE004 when it has not ended, or is a child run
   */
  async restart(
    fromTask?: keyof TasksOf<Workflow> & string,
    options: TransactionOption = {},
  ): Promise<Run<Workflow>> {
    const id = await engine.restartRun(on(this.#db, options), this.id, fromTask)
    return new Run(this.#db, id)
  }

  /**
   * Sends a signal: the task that waits for it takes it, or the first that will. Returns its id.
   *
   * @throws FencepostError JE002, JE003; JE004 when the run has ended
   */
  async signal(name: string, payload?: unknown, options: TransactionOption = {}): Promise<number> {
    return engine.signalRun(on(this.#db, options), this.id, name, payload)
  }

  /**
   * Moves it to another version of its workflow, or with `dryRun` only tells what would change.
   *
   * @throws FencepostError JE002; JE003 when its input does not fit that version; JE004 when it has ended, or a task that
   *   has begun does not fit
   */
  async migrate(
    toVersion: number,
    { dryRun, ...options }: TransactionOption & { readonly dryRun?: boolean | undefined } = {},
  ): Promise<MigrationChange[]> {
    return engine.migrateRun(on(this.#db, options), this.id, toVersion, dryRun)
  }
}
