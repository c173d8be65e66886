import * as engine from '../database/engine.ts'
import { type AnyWorkflow, WorkflowDefinition } from '../definitions/define-workflow.ts'
import { type Duration, durationFrom, interval } from '../definitions/duration.ts'
import { FencepostError } from '../errors.ts'
import { anything, type Check, checkOptions, shown, textUpTo, wholeNumber } from '../options.ts'
import { type Camelized, camelized } from './camel.ts'
import { EventClient } from './event-client.ts'
import { on, type TransactionOption } from './new-job.ts'
import { Run, type RunListing } from './run.ts'

/** What a run can be given beside its input. */
export interface StartOptions {
  /** Default: the one that equals the definition, or the latest when only a name is given. The run stays on it. */
  readonly version?: number | undefined
  /** The same key for the same workflow and tenant gives the same run. */
  readonly idempotencyKey?: string | undefined
  /** Words for finding it. */
  readonly tags?: readonly string[] | undefined
  /** Of its jobs, unless a task says otherwise: 0 to 9, higher first. Default 5. */
  readonly priority?: number | undefined
  /** Whose run it is. */
  readonly tenant?: string | undefined
}

/** Who decides, and what they say. */
export interface DecisionOptions {
  /** Default: the role of the session. */
  readonly decidedBy?: string | undefined
  readonly comment?: string | undefined
  /** Any JSON: part of the output of an approval task. */
  readonly data?: unknown
}

/** An approval as it stands. */
export type ApprovalInfo = Camelized<engine.ApprovalRow>
/** What narrows runs; the keys are those of `fencepost.list_runs`. */
export type RunFilter = engine.RunFilter
/** What narrows approvals; the keys are those of `fencepost.list_approvals`. */
export type ApprovalFilter = engine.ApprovalFilter
/** What two versions of a workflow differ in. */
export type WorkflowDifference = engine.DiffRow

type InputOf<Workflow extends AnyWorkflow> = NonNullable<Workflow['~types']>['input']

const texts: Check = (value) =>
  Array.isArray(value) && value.every((each) => typeof each === 'string')
    ? undefined
    : 'must be an array of texts'
const manyChecks = {
  version: wholeNumber(1),
  tags: texts,
  priority: wholeNumber(0, 9),
  tenant: ((value) => (typeof value === 'string' ? undefined : 'must be a text')) as Check,
  tx: anything,
}
const startChecks = { ...manyChecks, idempotencyKey: textUpTo(500) }
const decisionChecks = { decidedBy: textUpTo(500), comment: anything, data: anything, tx: anything }
const gateChecks = { reason: anything, expiresAfter: durationFrom(1), tx: anything }

/** What an application does with workflows; a part of {@link Fencepost}. */
export abstract class WorkflowClient extends EventClient {
  /** Which version a definition is. Versions never change, so what was found once stays true. */
  readonly #versions = new WeakMap<AnyWorkflow, number>()

  /**
   * Publishes a workflow and returns its version: the next one, or the one that has an equal definition.
   * Call it at every start of the application: it changes nothing unless the definition has changed.
   *
   * @throws FencepostError JE003 (name); JE008 (definition; the detail names the place)
   */
  publish(workflow: AnyWorkflow, options?: TransactionOption): Promise<number>
  publish(
    name: string,
    definition: Readonly<Record<string, unknown>>,
    options?: TransactionOption,
  ): Promise<number>
  async publish(
    workflow: AnyWorkflow | string,
    second: TransactionOption | Readonly<Record<string, unknown>> = {},
    third: TransactionOption = {},
  ): Promise<number> {
    const isName = typeof workflow === 'string'
    const options = isName ? third : (second as TransactionOption)
    checkOptions('publish', options, { tx: anything })
    const definition = isName ? second : workflow
    const version = await engine.publishWorkflow(
      on(this.database, options),
      nameOf(workflow),
      definition,
    )
    this.#keep(workflow, version, options)
    return version
  }

  /**
   * Starts a run: a new one, or the one that has the idempotency key. A definition starts the version
   * that equals it, whatever others have published since; a name starts the latest.
   *
   * @throws FencepostError JE002 (workflow or version; a definition that was never published); JE003 (the input does not fit the schema);
   *   JE005 (key used with another input)
   */
  start<Workflow extends AnyWorkflow>(
    workflow: Workflow,
    input: NoInfer<InputOf<Workflow>>,
    options?: StartOptions & TransactionOption,
  ): Promise<Run<Workflow>>
  start(workflow: string, input?: unknown, options?: StartOptions & TransactionOption): Promise<Run>
  async start(
    workflow: AnyWorkflow | string,
    input: unknown = {},
    options: StartOptions & TransactionOption = {},
  ): Promise<Run> {
    checkOptions('start', options, startChecks)
    const { idempotencyKey: idempotency_key, ...more } = options
    const id = await engine.startRun(on(this.database, options), {
      ...common(more),
      workflow: nameOf(workflow),
      version: await this.#version(workflow, options),
      input: await checkedInput(workflow, input),
      idempotency_key,
    })
    return new Run(this.database, id)
  }

  /**
   * Starts a run for each input, all or none: the fastest way.
   *
   * @throws FencepostError as {@link start}; the message names the place in the list, from 1
   */
  startMany<Workflow extends AnyWorkflow>(
    workflow: Workflow,
    inputs: readonly NoInfer<InputOf<Workflow>>[],
    options?: Omit<StartOptions, 'idempotencyKey'> & TransactionOption,
  ): Promise<Run<Workflow>[]>
  startMany(
    workflow: string,
    inputs: readonly unknown[],
    options?: Omit<StartOptions, 'idempotencyKey'> & TransactionOption,
  ): Promise<Run[]>
  async startMany(
    workflow: AnyWorkflow | string,
    inputs: readonly unknown[],
    options: Omit<StartOptions, 'idempotencyKey'> & TransactionOption = {},
  ): Promise<Run[]> {
    checkOptions('startMany', options, manyChecks)
    const checked: unknown[] = []
    for (const input of inputs) checked.push(await checkedInput(workflow, input))
    const version = await this.#version(workflow, options)
    const runs = { ...common(options), workflow: nameOf(workflow), version }
    const ids = await engine.startRuns(on(this.database, options), runs, checked)
    return ids.map((id) => new Run(this.database, id))
  }

  /** A run by its id; the definition, if given, types what it returns. Nothing is asked yet. */
  run<Workflow extends AnyWorkflow = WorkflowDefinition>(
    id: number,
    _workflow?: Workflow,
  ): Run<Workflow> {
    return new Run(this.database, id)
  }

  /**
   * Runs that match, newest first. The list ends early (an entry with `cut`) when too much would have to
   * be looked at: go on after that entry's id.
   *
   * @throws FencepostError JE003 for a filter that is not known
   */
  async runs(filter: RunFilter = {}, part: engine.Part = {}): Promise<RunListing[]> {
    return (await engine.listRuns(this.database, filter, part)).map(camelized)
  }

  /**
   * What differs between two versions of a workflow, by task and key.
   *
   * @throws FencepostError JE002
   */
  workflowDiff(
    name: string,
    fromVersion: number,
    toVersion: number,
  ): Promise<WorkflowDifference[]> {
    return engine.workflowDiff(this.database, name, fromVersion, toVersion)
  }

  /**
   * Tries a failed task again; its run goes on when it completes.
   *
   * @throws FencepostError JE002; JE004 when it has not failed
   */
  async replayTask(taskId: number, options: TransactionOption = {}): Promise<void> {
    return engine.replayTask(on(this.database, options), taskId)
  }

  /**
   * Puts a gate before a task that has not begun: it waits until somebody approves. Returns the
   * approval's id.
   *
   * @throws FencepostError JE002; JE004 when it runs already, has ended or has a gate
   */
  async requestApproval(
    taskId: number,
    options: {
      readonly reason?: string | undefined
      readonly expiresAfter?: Duration | undefined
    } & TransactionOption = {},
  ): Promise<number> {
    checkOptions('requestApproval', options, gateChecks)
    const { reason, expiresAfter } = options
    return engine.requestApproval(on(this.database, options), taskId, {
      reason,
      expires_after: expiresAfter === undefined ? undefined : interval(expiresAfter),
    })
  }

  /**
   * Approvals that match, newest first: `{ status: 'pending' }` are those that wait for a decision. The
   * list ends early as {@link runs} does.
   *
   * @throws FencepostError JE003 for a filter that is not known
   */
  async approvals(
    filter: ApprovalFilter = {},
    part: engine.Part = {},
  ): Promise<Camelized<engine.Listed<engine.ApprovalRow>>[]> {
    return (await engine.listApprovals(this.database, filter, part)).map(camelized)
  }

  /**
   * Approves: the run goes on.
   *
   * @throws FencepostError JE002; JE004 when it was decided before
   */
  async approve(
    approvalId: number,
    options: DecisionOptions & TransactionOption = {},
  ): Promise<void> {
    checkOptions('approve', options, decisionChecks)
    await engine.approve(on(this.database, options), approvalId, decided(options))
  }

  /**
   * Rejects, with the consequence that `onReject` of the task names.
   *
   * @throws FencepostError JE002; JE004 when it was decided before
   */
  async reject(
    approvalId: number,
    options: DecisionOptions & TransactionOption = {},
  ): Promise<void> {
    checkOptions('reject', options, decisionChecks)
    await engine.reject(on(this.database, options), approvalId, decided(options))
  }

  /** The version that a run is started with; undefined for the latest. */
  async #version(
    workflow: AnyWorkflow | string,
    options: StartOptions & TransactionOption,
  ): Promise<number | undefined> {
    if (options.version !== undefined || !(workflow instanceof WorkflowDefinition)) {
      return options.version
    }
    const known = this.#versions.get(workflow)
    if (known !== undefined) return known
    const version = await engine.versionOf(on(this.database, options), workflow.name, workflow)
    this.#keep(workflow, version, options)
    return version
  }

  /** What a transaction of the application has published may still vanish. */
  #keep(workflow: AnyWorkflow | string, version: number, { tx }: TransactionOption): void {
    if (tx === undefined && workflow instanceof WorkflowDefinition) {
      this.#versions.set(workflow, version)
    }
  }
}

function nameOf(workflow: AnyWorkflow | string): string {
  if (workflow instanceof WorkflowDefinition) return workflow.name
  if (typeof workflow === 'string') return workflow
  throw new FencepostError('JE003', 'a workflow is a definition of defineWorkflow() or its name', {
    detail: `received ${shown(workflow)}`,
    hint: `For example start('order.fulfil', { id: 7 }).`,
  })
}

async function checkedInput(workflow: AnyWorkflow | string, input: unknown): Promise<unknown> {
  return workflow instanceof WorkflowDefinition ? workflow.parse(input) : input
}

function common({
  tags,
  priority,
  tenant,
}: StartOptions): Omit<engine.NewRuns, 'workflow' | 'version'> {
  return { tags, priority, tenant }
}

function decided({ decidedBy: decided_by, comment, data }: DecisionOptions): engine.Decided {
  return { decided_by, comment, data }
}
