import path from 'node:path'
import pg from 'pg'
import { startEmbedded } from '../../dist/database/embedded.js'
import { cpuMsOfTree } from './machine.mjs'

/**
 * What the one server of a run is set to, for all systems: enough memory and log that no checkpoint
 * falls into a round, and full durability.
 */
export const SETTINGS = {
  shared_buffers: '1GB',
  max_wal_size: '8GB',
  checkpoint_timeout: '30min',
  max_connections: '100',
  fsync: 'on',
  synchronous_commit: 'on',
  full_page_writes: 'on',
}

/** The PostgreSQL server of a run; each round of each system gets a new database on it. */
export class PostgresServer {
  #server
  #admin
  #number = 0

  static async start(directory) {
    const self = new PostgresServer()
    self.#server = await startEmbedded({
      dataDir: path.join(directory, 'postgres'),
      settings: SETTINGS,
    })
    self.#admin = await connect(self.#server.url)
    return self
  }

  get version() {
    return this.#server.version
  }

  /** An empty database, with nothing of earlier rounds left to be written to disk. */
  async place() {
    const name = `bench_${++this.#number}`
    await this.#admin.query(`create database ${name}`)
    await this.#admin.query('checkpoint')
    const url = new URL(this.#server.url)
    url.pathname = `/${name}`
    return { kind: 'postgres', name, url: url.href }
  }

  async discard({ name }) {
    await this.#admin.query(`drop database if exists ${name} with (force)`)
  }

  /** What the server has done so far, of which two readings make a cost. */
  async costs({ name }) {
    const { rows } = await this.#admin.query(
      `select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8 as log_bytes,
              pg_stat_get_db_xact_commit(oid)::float8 as requests
       from pg_database where datname = $1`,
      [name],
    )
    return {
      logBytes: rows[0].log_bytes,
      requests: rows[0].requests,
      cpuMs: cpuMsOfTree(this.#server.pid),
    }
  }

  async stop() {
    await this.#admin.end()
    await this.#server.stop()
  }
}

/** One connection that does not end the process when the server drops it. */
export async function connect(url) {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => {})
  await client.connect()
  return client
}

/** As a queue in daily use is: its statistics known, its pages once vacuumed. */
export async function settle({ url }) {
  const client = await connect(url)
  await client.query('vacuum (analyze)')
  await client.query('checkpoint')
  await client.end()
}
