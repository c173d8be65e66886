// A server for the db: scripts, which lives as long as one of them.

import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import process from 'node:process'
import pg from 'pg'
import { build, stale } from './build.mjs'

// The compiler also writes what has errors: enough here, where `npm run check` is the judge.
if (stale()) await build().catch((error) => process.stderr.write(`${error.message}\n`))
const { startEmbedded } = await import('../dist/database/embedded.js')
const { SETTINGS_STATEMENTS } = await import('../dist/database/migrations.js')
export const { migrate } = await import('../dist/database/migrate.js')
export const { schemaSnapshot } = await import('../dist/database/snapshot.js')

/**
 * Runs `work` with a new server; its argument makes databases and tells their addresses. `options`
 * go to the server.
 */
export async function withServer(work, options = {}) {
  const dataDir = mkdtempSync(path.join(tmpdir(), 'fencepost-db-'))
  chmodSync(dataDir, 0o755)
  const server = await startEmbedded({ dataDir, settings: { fsync: 'off' }, ...options })
  const address = (name) => server.url.replace(/[^/]*$/, name)
  try {
    return await work({
      address,
      async database(name, text = '') {
        await execute(address('postgres'), `create database ${name}`)
        if (text !== '') {
          await execute(
            address(name),
            ['begin;', ...SETTINGS_STATEMENTS, text, 'commit;'].join('\n'),
          )
        }
        return address(name)
      },
    })
  } finally {
    await server.stop()
    for (const each of [dataDir, server.home]) rmSync(each, { recursive: true, force: true })
  }
}

export async function execute(url, text) {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    await client.query(text)
  } finally {
    await client.end()
  }
}
