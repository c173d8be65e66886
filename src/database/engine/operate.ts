import type { Queryable, QueryOptions } from '../database.ts'
import { json } from '../json.ts'
import { call, rows, value } from './call.ts'

/**
 * Declares a type and its settings from code, by the names of `configure_type`; what an operator has
 * set stays. True when a setting changed.
 *
 * @throws FencepostError JE003, naming the setting
 */
export function declareType(
  db: Queryable,
  type: string,
  settings: Readonly<Record<string, unknown>> = {},
  options?: QueryOptions,
): Promise<boolean> {
  return value(db, call('declare_type', { type, settings: json(settings) }), options)
}

/** What a step of housekeeping did. */
export interface MaintainRow {
  readonly step: string
  /** In rows or jobs. */
  readonly done: number
  /** Why it failed; the step backs off. */
  readonly error: string | null
}

/**
 * All housekeeping, in small bounded steps: to be called about each second, from anywhere. No row
 * when another call is at work.
 *
 * @throws FencepostError JE004 after a logical restore
 */
export function maintain(db: Queryable, options?: QueryOptions): Promise<MaintainRow[]> {
  return rows(db, call('maintain', {}), options)
}

/** Something that a look at the whole found. */
export interface FindingRow {
  readonly severity: string
  readonly finding: string
  /** Why it matters. */
  readonly why: string
  /** What mends it. */
  readonly remedy: string
  readonly topic: string
}

/** Looks at the whole and changes nothing: what is wrong, why it matters, what mends it. */
export function doctor(db: Queryable, options?: QueryOptions): Promise<FindingRow[]> {
  return rows(db, call('doctor', {}), options)
}

/** A rule that does not hold, and where. */
export interface ViolationRow {
  readonly invariant: string
  readonly detail: string
}

/** Proves what must hold at any moment. No row is health. At most `bodies` of the newest jobs are looked at. */
export function checkInvariants(
  db: Queryable,
  bodies?: number,
  options?: QueryOptions,
): Promise<ViolationRow[]> {
  return rows(db, call('check_invariants', { bodies }), options)
}

/** What a step of {@link afterRestore} did. */
export interface RestoreRow {
  readonly step: string
  readonly done: number
}

/** Makes a database that was restored from a dump fit for work. To be called once, while no worker runs. */
export function afterRestore(db: Queryable, options?: QueryOptions): Promise<RestoreRow[]> {
  return rows(db, call('after_restore', {}), options)
}
