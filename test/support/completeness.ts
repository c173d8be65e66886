import pg from 'pg'
import type { Gathered } from './gathered.ts'
import { withDatabase } from './launch.ts'
import { TEMPLATE } from './template.ts'

/** A code of ours as the text of a function names it. */
const CODE = String.raw`'(JE\d{3})'`

/**
 * What the whole suite should have seen at work and did not, in sentences: public functions that
 * nothing called, and error codes of the engine's functions that nothing raised.
 */
export async function untested(
  gathered: Gathered,
  serverUrl: string,
  serverLog: string,
): Promise<string[]> {
  const raised = new Set([...gathered.all('code'), ...(serverLog.match(/^JE\d{3}/gm) ?? [])])
  const called = gathered.all('function')
  const client = new pg.Client({ connectionString: withDatabase(serverUrl, TEMPLATE) })
  await client.connect()
  try {
    await client.query("set search_path = ''")
    const functions = await client.query<{ name: string }>(
      "select oid::regprocedure::text as name from pg_proc where pronamespace = 'fencepost'::regnamespace order by 1",
    )
    const codes = await client.query<{ code: string }>(
      `select distinct (regexp_matches(prosrc, $1, 'g'))[1] as code from pg_proc
       where pronamespace in ('fencepost'::regnamespace, 'fencepost_private'::regnamespace) order by 1`,
      [CODE],
    )
    return [
      ...functions.rows
        .filter(({ name }) => !called.has(name))
        .map(({ name }) => `no test calls ${name}`),
      ...codes.rows
        .filter(({ code }) => !raised.has(code))
        .map(({ code }) => `no test raises ${code}`),
    ]
  } finally {
    await client.end()
  }
}
