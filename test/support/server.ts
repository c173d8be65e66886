import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { afterAll, beforeAll, inject } from 'vitest'
import { connect, type Database } from '../../src/database/database.ts'
import { Gathered } from './gathered.ts'
import { withDatabase } from './launch.ts'
import { run, TEMPLATE } from './template.ts'

/** A database of a test file's own. */
export interface TestDatabase extends AsyncDisposable {
  readonly url: string
  readonly name: string
  readonly db: Database
  /** Notes which functions were called, closes `db`, cuts other sessions and drops the database. */
  drop(): Promise<void>
}

/** What the database starts with. */
export interface TestDatabaseOptions {
  /** Default true; false gives an empty database, for tests of the migration itself. */
  readonly migrated?: boolean
}

/**
 * A database for the tests of a file, made before the first and dropped after the last of them: asked for at the top of
 * the file, and there from its first hook on.
 */
export function ownDatabase(
  options: TestDatabaseOptions = {},
): Pick<TestDatabase, 'url' | 'name' | 'db'> {
  let database: TestDatabase
  beforeAll(async () => {
    database = await testDatabase(options)
  })
  afterAll(() => database.drop())
  return {
    get url() {
      return database.url
    },
    get name() {
      return database.name
    },
    get db() {
      return database.db
    },
  }
}

/** A fresh database on the suite's server, migrated: for whoever drops it. */
export async function testDatabase(options: TestDatabaseOptions = {}): Promise<TestDatabase> {
  const server = serverUrl()
  const name = `test_${randomBytes(6).toString('hex')}`
  const template = (options.migrated ?? true) ? TEMPLATE : 'template1'
  await run(server, `create database ${name} template ${template}`)
  const url = withDatabase(server, name)
  const db = connect({ url })
  async function drop(): Promise<void> {
    await db.close()
    new Gathered(inject('gathered')).add('function', await calledFunctions(url))
    await run(server, `drop database if exists ${name} with (force)`)
  }
  return { url, name, db, drop, [Symbol.asyncDispose]: drop }
}

/** The superuser's address of the suite's server, for tests that need a role or a database more. */
export function serverUrl(): string {
  return inject('serverUrl')
}

/** The functions of ours that were called in a database; sessions report when they end. */
async function calledFunctions(url: string): Promise<string[]> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    await client.query("set search_path = ''")
    await client.query(
      'select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()',
    )
    const { rows } = await client.query<{ name: string }>(
      "select funcid::regprocedure::text as name from pg_stat_user_functions where schemaname = 'fencepost'",
    )
    return rows.map(({ name }) => name)
  } finally {
    await client.end()
  }
}
