import pg from 'pg'
import { nameOf } from '../../src/api/endpoint.ts'
import { endpoints } from '../../src/api/endpoints.ts'
import type { Gathered } from './gathered.ts'
import { withDatabase } from './launch.ts'
import { TEMPLATE } from './template.ts'

/** A code of ours as the text of a function names it. */
const CODE = String.raw`'(JE\d{3})'`

/**
 * What the whole suite should have seen at work and did not, in sentences: public functions that
 * nothing called, error codes of the engine's functions that nothing raised, and routes of the API that
 * were not answered once well and once refused.
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
      ...unasked(gathered.all('route')),
    ]
  } finally {
    await client.end()
  }
}

/** Routes that no test saw answer well, or refuse. */
export function unasked(seen: ReadonlySet<string>): string[] {
  return endpoints.flatMap((endpoint) =>
    ['answered', 'refused']
      .map((how) => `${nameOf(endpoint)} ${how}`)
      .filter((name) => !seen.has(name))
      .map((name) => `no test saw ${name}`),
  )
}
