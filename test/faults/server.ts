import { spawnSync } from 'node:child_process'
import { chmodSync, chownSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { connect, type Database } from '../../src/database/database.ts'
import { type EmbeddedServer, startEmbedded } from '../../src/database/embedded.ts'
import { withDatabase } from '../support/launch.ts'
import { createTemplate, TEMPLATE } from '../support/template.ts'

/** A server of a test's own, to be killed: what it has committed, it has written to the disk. */
export interface FaultServer extends AsyncDisposable {
  readonly server: EmbeddedServer
  /** The migrated database. */
  readonly url: string
  readonly db: Database
}

const SETTINGS = { fsync: 'on', synchronous_commit: 'on', max_connections: 100 }

export async function faultServer(): Promise<FaultServer> {
  const dataDir = newDirectory()
  const server = await startEmbedded({ dataDir, settings: SETTINGS })
  await createTemplate(server.url)
  const url = withDatabase(server.url, TEMPLATE)
  const db = connect({ url })
  return {
    server,
    url,
    db,
    async [Symbol.asyncDispose]() {
      await db.close()
      await remove(server, dataDir)
    },
  }
}

/** A standby of a server, and how it is removed. */
export interface Standby extends AsyncDisposable {
  readonly server: EmbeddedServer
}

/**
 * Starts a synchronous standby: a copy of the running server's files that follows it from there. The
 * server then commits nothing that the standby has not written down.
 */
export async function synchronousStandby({ server, db }: FaultServer): Promise<Standby> {
  const dataDir = newDirectory()
  const cluster = path.join(dataDir, 'postgres', server.version.split('.')[0] ?? '')
  const label = await db.transaction(async (tx) => {
    await tx.query("select pg_backup_start('standby', fast => true)")
    spawnSync('cp', ['-a', path.join(server.home, 'postgres'), dataDir])
    const [backup] = await tx.query<{ labelfile: string }>(
      'select labelfile from pg_backup_stop(wait_for_archive => false)',
    )
    return backup?.labelfile ?? ''
  })
  rmSync(path.join(cluster, 'postmaster.pid'))
  const { uid, gid } = statSync(cluster)
  for (const [name, text] of Object.entries({ backup_label: label, 'standby.signal': '' })) {
    writeFileSync(path.join(cluster, name), text)
    chownSync(path.join(cluster, name), uid, gid)
  }
  const { hostname, port, username, password } = new URL(server.url)
  const standby = await startEmbedded({
    dataDir,
    settings: {
      ...SETTINGS,
      primary_conninfo: `host=${hostname} port=${port} user=${username} password=${password}`,
    },
  })
  await db.query("alter system set synchronous_standby_names = '*'")
  await db.query('select pg_reload_conf()')
  return { server: standby, [Symbol.asyncDispose]: () => remove(standby, dataDir) }
}

function newDirectory(): string {
  const directory = mkdtempSync(path.join(tmpdir(), 'fencepost-test-'))
  chmodSync(directory, 0o755) // the server of a root runs as another account
  return directory
}

async function remove(server: EmbeddedServer, dataDir: string): Promise<void> {
  await server.stop()
  for (const each of [server.home, dataDir]) rmSync(each, { recursive: true, force: true })
}
