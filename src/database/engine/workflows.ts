import type { Queryable, QueryOptions } from '../database.ts'
import { json } from '../json.ts'
import { call, perform, rows, value } from './call.ts'

/** A row of `fencepost.workflows`. */
export interface WorkflowRow {
  readonly name: string
  readonly latest_version: number
  /** How many tasks its latest version has. */
  readonly tasks: number
  /** How long its finished runs are kept: an SQL interval. */
  readonly keep_finished: string
  readonly created_at: Date
  /** When its latest version was published, and by whom. */
  readonly updated_at: Date
  readonly updated_by: string
}

/** A row of `fencepost.workflow_versions`, without its definition. */
export interface WorkflowVersionRow {
  readonly workflow: string
  readonly version: number
  readonly checksum: string
  readonly tasks: number
  readonly created_at: Date
  readonly created_by: string
}

/** A published version with its definition, as it was given. */
export type PublishedVersion = WorkflowVersionRow & {
  readonly definition: Readonly<Record<string, unknown>>
}

/** What two versions of a workflow differ in: a key of a task, or of the workflow itself. */
export interface DiffRow {
  /** Null for a key of the workflow. */
  readonly task: string | null
  readonly key: string
  /** Null where the key is not there. */
  readonly before: unknown
  readonly after: unknown
}

/**
 * Publishes a definition and returns its version: the next one, or the one that has an equal definition.
 *
 * @throws FencepostError JE003 (name), JE008 (definition; the detail names the place)
 */
export function publishWorkflow(
  db: Queryable,
  name: string,
  definition: unknown,
  options?: QueryOptions,
): Promise<number> {
  return value(db, call('publish_workflow', { name, definition: json(definition) }), options)
}

/**
 * The version that has an equal definition.
 *
 * @throws FencepostError JE002 when there is none: it was never published
 */
export function versionOf(
  db: Queryable,
  name: string,
  definition: unknown,
  options?: QueryOptions,
): Promise<number> {
  return value(db, call('version_of', { name, definition: json(definition) }), options)
}

/** What an operator sets of a workflow, for all its versions. What is left out stays as it is. */
export interface WorkflowChange {
  /** How long finished runs are kept: an SQL interval. */
  readonly keep_finished?: string | undefined
}

/**
 * Changes settings of a workflow.
 *
 * @throws FencepostError JE002, JE003
 */
export function configureWorkflow(
  db: Queryable,
  name: string,
  change: WorkflowChange,
  options?: QueryOptions,
): Promise<void> {
  return perform(db, call('configure_workflow', { ...change, name }), options)
}

/**
 * What differs between two versions.
 *
 * @throws FencepostError JE002
 */
export function workflowDiff(
  db: Queryable,
  name: string,
  from_version: number,
  to_version: number,
  options?: QueryOptions,
): Promise<DiffRow[]> {
  return rows(db, call('workflow_diff', { name, from_version, to_version }), options)
}

/** Workflows by name, from behind `after` on. */
export function workflows(
  db: Queryable,
  { limit = 50, after }: { readonly limit?: number; readonly after?: string | undefined } = {},
  options?: QueryOptions,
): Promise<WorkflowRow[]> {
  return db.query(
    `select w.* from fencepost.workflows as w
     where $1::text is null or w.name > $1 order by w.name limit $2`,
    [after, limit],
    options,
  )
}

/** A workflow by its name; undefined when there is none. */
export async function getWorkflow(
  db: Queryable,
  name: string,
  options?: QueryOptions,
): Promise<WorkflowRow | undefined> {
  const [workflow] = await db.query<WorkflowRow>(
    'select w.* from fencepost.workflows as w where w.name = $1',
    [name],
    options,
  )
  return workflow
}

/** The versions of a workflow, newest first, below `before`. */
export function workflowVersions(
  db: Queryable,
  name: string,
  { limit = 50, before }: { readonly limit?: number; readonly before?: number | undefined } = {},
  options?: QueryOptions,
): Promise<WorkflowVersionRow[]> {
  return db.query(
    `select v.workflow, v.version, v.checksum, v.tasks, v.created_at, v.created_by
     from fencepost.workflow_versions as v
     where v.workflow = $1 and ($2::int is null or v.version < $2)
     order by v.version desc limit $3`,
    [name, before, limit],
    options,
  )
}

/** A version with its definition; without a number the latest. Undefined when there is none. */
export async function getWorkflowVersion(
  db: Queryable,
  name: string,
  version?: number,
  options?: QueryOptions,
): Promise<PublishedVersion | undefined> {
  const [found] = await db.query<PublishedVersion>(
    `select v.* from fencepost.workflow_versions as v
     where v.workflow = $1
       and v.version = coalesce($2, (select w.latest_version from fencepost.workflows as w where w.name = $1))`,
    [name, version],
    options,
  )
  return found
}
