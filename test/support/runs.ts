import { expect } from 'vitest'
import { json, type Queryable } from '../../src/database/database.ts'
import { bury, type Claimed, claim, complete, fail, freshType } from './engine.ts'
import { one } from './sql.ts'

// Workflows as tests need them: published under a name of their own, with a type of their own for each task, and runs
// that are stepped through by hand. All calls go to SQL directly.

/** A task as a definition has it. A job, map or undoing without a type gets one of its own. */
export type TaskSpec = Record<string, unknown>

/** A row of the view `tasks`. */
export interface TaskRow {
  readonly id: number
  readonly run_id: number
  readonly name: string
  readonly kind: string
  readonly status: string
  readonly attempts: number
  readonly output: unknown
  readonly error: string | null
  readonly type: string | null
  readonly job_id: number | null
  readonly child_run_id: number | null
  readonly item: number | null
  readonly parent_task_id: number | null
  readonly approval_id: number | null
  readonly due_at: Date | null
  readonly unmet_parents: number
  readonly items: number | null
  readonly items_open: number | null
  readonly items_failed: number | null
}

/** A row of the view `runs`. */
export interface RunRow {
  readonly id: number
  readonly workflow: string
  readonly version: number
  readonly status: string
  readonly input: unknown
  readonly finished_at: Date | null
  readonly pending_tasks: number
  readonly queued_tasks: number
  readonly waiting_tasks: number
  readonly ended_tasks: number
  readonly failed_tasks: number
  readonly tags: string[]
  readonly priority: number
  readonly tenant: string | null
  readonly reason: string | null
  readonly parent_run_id: number | null
  readonly parent_task_id: number | null
  readonly root_run_id: number
  readonly restarted_from: number | null
}

/** The type of the jobs of a task in a workflow of `publish`. */
export function typeOf(workflow: string, task: string): string {
  return `${workflow}.${task}`
}

/** Fills in the types that were left out. */
export function withTypes(
  workflow: string,
  tasks: Record<string, TaskSpec>,
): Record<string, TaskSpec> {
  return Object.fromEntries(
    Object.entries(tasks).map(([name, spec]) => {
      const needs = ['job', 'map'].includes(String(spec.kind ?? 'job')) && spec.type === undefined
      return [name, needs ? { type: typeOf(workflow, name), ...spec } : spec]
    }),
  )
}

/** Publishes tasks as a version of a workflow, by default one of its own; returns its name. */
export async function publish(
  db: Queryable,
  tasks: Record<string, TaskSpec>,
  rest: Record<string, unknown> = {},
  name = freshType('flow'),
): Promise<string> {
  await publishRaw(db, name, { ...rest, tasks: withTypes(name, tasks) })
  return name
}

/** Publishes a definition as it is; returns the version. */
export function publishRaw(db: Queryable, name: string, definition: unknown): Promise<number> {
  return one<number>(db, 'select fencepost.publish_workflow($1, $2)', [name, json(definition)])
}

/** A run that a test steps through. */
export class Run {
  readonly #db: Queryable
  readonly id: number
  /** The name of its workflow. */
  readonly workflow: string

  constructor(db: Queryable, id: number, workflow: string) {
    this.#db = db
    this.id = id
    this.workflow = workflow
  }

  /** The whole row. */
  async row(): Promise<RunRow> {
    const [row] = await this.#db.query<RunRow>('select * from fencepost.runs where id = $1', [
      this.id,
    ])
    if (row === undefined) throw new Error(`run ${this.id} is gone`)
    return row
  }

  async status(): Promise<string> {
    return (await this.row()).status
  }

  /** The tasks of the definition, items and undoings, oldest first. */
  rows(): Promise<TaskRow[]> {
    return this.#db.query<TaskRow>('select * from fencepost.tasks where run_id = $1 order by id', [
      this.id,
    ])
  }

  /** The status of each task of the definition. */
  async statuses(): Promise<Record<string, string>> {
    const rows = await this.rows()
    return Object.fromEntries(
      rows.filter((row) => row.item === null).map((row) => [row.name, row.status]),
    )
  }

  /** A task of the definition. */
  async task(name: string): Promise<TaskRow> {
    const row = (await this.rows()).find((each) => each.name === name && each.item === null)
    if (row === undefined) throw new Error(`run ${this.id} has no task ${name}`)
    return row
  }

  /** The items of a map, in order. */
  async items(name: string): Promise<TaskRow[]> {
    const rows = await this.rows()
    return rows
      .filter((row) => row.name === name && row.kind === 'item')
      .sort((one, other) => Number(one.item) - Number(other.item))
  }

  /** Claims a job of a task; of this run, when the workflow has no other. */
  async claim(task: string): Promise<Claimed> {
    const [job] = await claim(this.#db, typeOf(this.workflow, task))
    if (job === undefined) throw new Error(`run ${this.id}: nothing to claim of ${task}`)
    return job
  }

  /** Claims whatever there is of a task. */
  claimAll(task: string, max = 100): Promise<Claimed[]> {
    return claim(this.#db, typeOf(this.workflow, task), max)
  }

  /** Claims the job of a task and completes it. */
  async complete(task: string, output?: unknown): Promise<void> {
    await complete(this.#db, await this.claim(task), output)
  }

  /** Claims the job of a task and fails it for good. */
  async bury(task: string, error = 'no use'): Promise<void> {
    await bury(this.#db, await this.claim(task), error)
  }

  /** Claims the job of a task and fails the attempt; returns the verdict. */
  async fail(task: string, error = 'no luck'): Promise<string> {
    return fail(this.#db, await this.claim(task), error)
  }

  /** The id of the open approval of a task. */
  approval(task: string): Promise<number> {
    return one<number>(
      this.#db,
      `select id from fencepost.approvals where run_id = $1 and task = $2 and status = 'pending'`,
      [this.id, task],
    )
  }

  /** The run of a task of kind workflow. */
  async child(task: string, workflow: string): Promise<Run> {
    const { child_run_id: id } = await this.task(task)
    return new Run(this.#db, Number(id), workflow)
  }

  /** Calls a function of runs, such as pause_run. */
  call<Value = unknown>(name: string, ...rest: unknown[]): Promise<Value> {
    const places = rest.map((_, index) => `, $${index + 2}`).join('')
    return one<Value>(this.#db, `select fencepost.${name}($1${places})`, [this.id, ...rest])
  }

  /** The kinds of its stored events but those of jobs, oldest first. */
  async events(): Promise<string[]> {
    const rows = await this.#db.query<{ kind: string }>(
      'select kind::text from fencepost_private.event where run_id = $1 and job_id is null order by id',
      [this.id],
    )
    return rows.map(({ kind }) => kind)
  }
}

/** Starts a run. */
export async function start(
  db: Queryable,
  workflow: string,
  input: unknown = {},
  options: Record<string, unknown> = {},
): Promise<Run> {
  const list = Object.keys(options).map((name, index) => `, ${name} => $${index + 3}`)
  const id = await one<number>(db, `select fencepost.start_run($1, $2${list.join('')})`, [
    workflow,
    json(input),
    ...Object.values(options),
  ])
  return new Run(db, id, workflow)
}

/** Publishes tasks and starts a run of them. */
export async function begin(
  db: Queryable,
  tasks: Record<string, TaskSpec>,
  input: unknown = {},
  rest: Record<string, unknown> = {},
): Promise<Run> {
  return start(db, await publish(db, tasks, rest), input)
}

/** Claims and completes whatever there is of a workflow, until nothing is left; returns the tasks in that order. */
export async function drain(
  db: Queryable,
  workflow: string,
  tasks: readonly string[],
  output: (task: string, payload: unknown) => unknown = (task) => task,
): Promise<string[]> {
  const done: string[] = []
  const types = tasks.map((task) => typeOf(workflow, task))
  for (;;) {
    const [job] = await claim(db, types)
    if (job === undefined) return done
    const task = job.type.slice(workflow.length + 1)
    await complete(db, job, output(task, job.payload))
    done.push(task)
  }
}

/** Fires timers and expiries, as housekeeping does. */
export function settleDue(db: Queryable): Promise<number> {
  return one<number>(db, 'select fencepost_private.settle_due_runs()')
}

/** Nothing that must always be true of jobs and runs is broken. */
export async function expectSound(db: Queryable): Promise<void> {
  const broken = await db.query('select * from fencepost.check_invariants()', [], {
    timeout: 60_000,
  })
  expect(broken).toEqual([])
}
