import pg from 'pg'
import { installText } from '../../scripts/includes.mjs'
import {
  readMigrations,
  recordStatement,
  SETTINGS_STATEMENTS,
} from '../../src/database/migrations.ts'
import { withDatabase } from './launch.ts'

/** The database that each test file's database is a copy of. */
export const TEMPLATE = 'fencepost_template'

/**
 * Makes the template from sql/ as it stands, recorded as migrated. (That the committed migrations
 * make the same is a test of its own.)
 */
export async function createTemplate(serverUrl: string): Promise<void> {
  await run(serverUrl, `create database ${TEMPLATE}`)
  const records = (await readMigrations()).map(recordStatement)
  const settings = SETTINGS_STATEMENTS.join('\n')
  await run(
    withDatabase(serverUrl, TEMPLATE),
    ['begin;', settings, installText(), ...records, 'commit;'].join('\n'),
  )
}

/** Runs statements in a session of their own. */
export async function run(url: string, text: string): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    await client.query(text)
  } finally {
    await client.end()
  }
}
