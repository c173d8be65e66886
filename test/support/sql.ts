import { expect } from 'vitest'
import type { Queryable } from '../../src/database/database.ts'

/** The only value of a statement's only row. */
export async function one<Value = unknown>(
  db: Queryable,
  text: string,
  params: readonly unknown[] = [],
): Promise<Value> {
  const rows = await db.query<Record<string, Value>>(text, params)
  expect(rows, text).toHaveLength(1)
  return Object.values(rows[0] as Record<string, Value>)[0] as Value
}

/** The first column of a statement's rows. */
export async function column<Value = unknown>(
  db: Queryable,
  text: string,
  params: readonly unknown[] = [],
): Promise<Value[]> {
  const rows = await db.query<Record<string, Value>>(text, params)
  return rows.map((row) => Object.values(row)[0] as Value)
}

/** What the engine says when it refuses. */
export interface Refusal {
  readonly code: string
  readonly message: string
  readonly detail: string | undefined
  readonly hint: string | undefined
}

/** Expects a refusal with this code, and gives it back. Each says what was received and what to do. */
export async function refused(promise: Promise<unknown>, code: string): Promise<Refusal> {
  const error = (await promise.then(
    (value) => new Error(`expected ${code}, but it went well: ${JSON.stringify(value)}`),
    (reason: unknown) => reason,
  )) as Refusal
  expect(error, error.message).toMatchObject({ code })
  if (code.startsWith('JE')) {
    expect(error.detail, `detail of: ${error.message}`).toBeTruthy()
    expect(error.hint, `hint of: ${error.message}`).toMatch(/\S$/)
  }
  return error
}

/** Whether an interval or other condition holds, asked of the server. */
export function holds(
  db: Queryable,
  condition: string,
  params: readonly unknown[] = [],
): Promise<boolean> {
  return one<boolean>(db, `select (${condition})`, params)
}
