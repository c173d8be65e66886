// npm run lint:sql: plpgsql_check reads every PL/pgSQL function of the engine, where Debian's server has it. (The
// embedded one cannot load it.) Skipped elsewhere, unless FENCEPOST_REQUIRE names plpgsql_check.

import { existsSync, readdirSync } from 'node:fs'
import path from 'node:path'
import process from 'node:process'
import pg from 'pg'
import { installText } from './includes.mjs'
import { withServer } from './scratch.mjs'

const debian = '/usr/lib/postgresql'
const server = (existsSync(debian) ? readdirSync(debian) : [])
  .map((major) => path.join(debian, major))
  .find((directory) => existsSync(path.join(directory, 'lib/plpgsql_check.so')))

if (server === undefined) {
  const required = (process.env.FENCEPOST_REQUIRE ?? '').split(',').includes('plpgsql_check')
  process.stderr.write('SQL lint skipped: plpgsql_check is not installed here\n')
  process.exit(required ? 1 : 0)
}

await withServer(
  async ({ database }) => {
    const url = await database(
      'lint',
      `${installText()}\ncreate extension plpgsql_check schema public;`,
    )
    const client = new pg.Client({ connectionString: url })
    await client.connect()
    const { rows } = await client.query(`
      select p.oid::regprocedure as name, c.lineno, c.level, c.message, c.detail, c.hint
      from pg_proc p
      join pg_language l on l.oid = p.prolang and l.lanname = 'plpgsql'
      cross join lateral public.plpgsql_check_function_tb(p.oid, fatal_errors => false, extra_warnings => true) c
      where p.pronamespace in ('fencepost'::regnamespace, 'fencepost_private'::regnamespace)
        and p.prorettype <> 'trigger'::regtype
        -- A query with WITH cannot be performed: its result goes to a variable that nothing reads.
        and c.message not like 'never read variable%'
      order by 1, 2`)
    await client.end()
    for (const { name, lineno, level, message, detail, hint } of rows) {
      const more = [detail, hint].filter(Boolean).map((text) => `\n    ${text}`)
      process.stderr.write(`${name}, line ${lineno ?? '?'}: ${level}: ${message}${more.join('')}\n`)
    }
    process.exitCode = rows.length > 0 ? 1 : 0
  },
  { binaries: server },
)
