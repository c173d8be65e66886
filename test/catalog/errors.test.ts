import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { errorCatalogue } from '../../src/errors.ts'
import { ownDatabase } from '../support/server.ts'
import { column } from '../support/sql.ts'

// One list of errors: SQL, TypeScript and the documentation say the same.

const database = ownDatabase()

const documented = () => {
  const text = readFileSync(new URL('../../docs/decisions/error-codes.md', import.meta.url), 'utf8')
  return [...text.matchAll(/^\| (JE\d{3}) \| (\w+) \| (\d{3}) \|/gm)].map(
    ([, code, name, status]) => ({
      code,
      name,
      status: Number(status),
    }),
  )
}

it('the codes, names and meanings of SQL are those of TypeScript', async () => {
  const rows = await database.db.query(
    'select code, name, meaning from fencepost.error_codes order by code',
  )
  expect(rows).toEqual(errorCatalogue.map(({ code, name, meaning }) => ({ code, name, meaning })))
})

it('the documentation lists the same codes, names and HTTP statuses', () => {
  expect(documented()).toEqual(
    errorCatalogue.map(({ code, name, status }) => ({ code, name, status })),
  )
})

it('no function raises a code that is not listed', async () => {
  const raised = await column<string>(
    database.db,
    `select distinct m[1] from pg_proc p cross join lateral regexp_matches(p.prosrc, '''(JE\\d+)''', 'g') as m
     where p.pronamespace in ('fencepost'::regnamespace, 'fencepost_private'::regnamespace) order by 1`,
  )
  const listed = errorCatalogue.map((entry) => entry.code)
  expect(raised.filter((code) => !listed.includes(code as never))).toEqual([])
})

it('nothing but raise_error raises on purpose', async () => {
  const others = await column<string>(
    database.db,
    `select p.oid::regprocedure::text from pg_proc p
     where p.pronamespace in ('fencepost'::regnamespace, 'fencepost_private'::regnamespace)
       and p.prosrc ~* '\\mraise\\s+(exception|using)' and p.proname not in ('raise_error', 'drop_partition')`,
  )
  expect(others).toEqual([])
})
