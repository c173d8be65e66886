import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
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

export async function faultServer(): Promise<FaultServer> {
  const dataDir = mkdtempSync(path.join(tmpdir(), 'fencepost-test-'))
  chmodSync(dataDir, 0o755) // the server of a root runs as another account
  const server = await startEmbedded({
    dataDir,
    settings: { fsync: 'on', synchronous_commit: 'on', max_connections: 100 },
  })
  await createTemplate(server.url)
  const url = withDatabase(server.url, TEMPLATE)
  const db = connect({ url })
  return {
    server,
    url,
    db,
    async [Symbol.asyncDispose]() {
      await db.close()
      await server.stop()
      for (const each of [server.home, dataDir]) rmSync(each, { recursive: true, force: true })
    },
  }
}
