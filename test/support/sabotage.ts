import type { Queryable } from '../../src/database/database.ts'
import { one } from './sql.ts'

/**
 * Breaks a function of the engine in a test's own database, by replacing one text in its definition. A proof is worth
 * something only if it fails without what it proves.
 */
export async function sabotage(
  db: Queryable,
  signature: string,
  text: string,
  replacement: string,
): Promise<void> {
  const definition = await one<string>(db, 'select pg_get_functiondef($1::regprocedure)', [
    `fencepost_private.${signature}`,
  ])
  if (!definition.includes(text)) throw new Error(`${signature} does not say: ${text}`)
  await db.query(definition.replace(text, () => replacement))
}
