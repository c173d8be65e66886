import { type ChildProcess, spawnSync } from 'node:child_process'
import pg from 'pg'
import {
  type Cluster,
  DATABASE,
  openCluster,
  SUPERUSER,
  serverEnvironment,
} from './embedded/cluster.ts'
import { EmbeddedServerError } from './embedded/errors.ts'
import { guardOf } from './embedded/guard.ts'
import { launch, PortTakenError, type ServerSettings } from './embedded/launch.ts'
import { freePort } from './embedded/ports.ts'
import {
  endPostmaster,
  livePostmaster,
  type Postmaster,
  stillServes,
  whenReady,
} from './embedded/postmaster.ts'
import { childrenOf, ended, isAlive, signal } from './embedded/processes.ts'
import { readState, writeState } from './embedded/state.ts'

export { EmbeddedServerError } from './embedded/errors.ts'
export type { ServerSettings } from './embedded/launch.ts'

/** How a server of ours is started. */
export interface EmbeddedOptions {
  /** Keeps the database, its log and its port; made when absent. */
  readonly dataDir: string
  /** The port on 127.0.0.1. Default: the one of the last start when it is free, else any free one. */
  readonly port?: number
  /** Hears, a line each, what takes time or may surprise. */
  readonly log?: (line: string) => void
  /** Settings of the server, as in postgresql.conf. An adopted server keeps those it has. */
  readonly settings?: ServerSettings
  /**
   * The server ends when this process ends, in whatever way (default true; not on Windows). Without
   * it a server outlives a process that was killed, and the next start adopts it.
   */
  readonly tied?: boolean
  /** A directory with PostgreSQL's `bin`, `lib` and `share`. Default: those that npm installed. */
  readonly binaries?: string
}

/** A PostgreSQL server that we run. */
export interface EmbeddedServer extends AsyncDisposable {
  /** Reaches the database `fencepost` as its superuser. */
  readonly url: string
  readonly port: number
  /** The server's main process; another one after `restart()`. */
  readonly pid: number
  /** False when it was stopped, or has died. */
  readonly isAlive: boolean
  /** As `18.4`. */
  readonly version: string
  /** The directory of the data and `server.log`: `dataDir`, unless root's server cannot reach it. */
  readonly home: string
  /** Cuts all sessions, writes everything, ends. A server that another live process owns stays. */
  stop(): Promise<void>
  /** Ends every process of the server at once, as a power cut would. For tests. */
  kill(): Promise<void>
  /** Stops it, if it still runs, and starts it on the same port. */
  restart(): Promise<void>
}

/**
 * Starts the embedded PostgreSQL on a data directory, or adopts one that still runs there.
 *
 * @throws EmbeddedServerError with one sentence when that is impossible here
 */
export async function startEmbedded(options: EmbeddedOptions): Promise<EmbeddedServer> {
  const log = options.log ?? (() => {})
  const cluster = openCluster(options.dataDir, log, options.binaries)
  const server = new Server(cluster, options)
  await server.start()
  return server
}

class Server implements EmbeddedServer {
  readonly #cluster: Cluster
  readonly #options: EmbeddedOptions
  #postmaster: Postmaster | undefined
  #shared = false
  #guard: ChildProcess | undefined

  constructor(cluster: Cluster, options: EmbeddedOptions) {
    this.#cluster = cluster
    this.#options = options
  }

  get url(): string {
    return this.#address(DATABASE)
  }

  get port(): number {
    return this.#running.port
  }

  get pid(): number {
    return this.#running.pid
  }

  get isAlive(): boolean {
    return this.#postmaster !== undefined && isAlive(this.#postmaster.pid)
  }

  get version(): string {
    return this.#cluster.version
  }

  get home(): string {
    return this.#cluster.home
  }

  async start(): Promise<void> {
    const { home, directory, version } = this.#cluster
    const adopted = await this.#adopt()
    this.#postmaster = adopted ?? (await this.#launch())
    const { owner } = readState(home)
    this.#shared = adopted !== undefined && owner !== undefined && isAlive(owner)
    if (!this.#shared) {
      writeState(home, { port: this.port, owner: process.pid })
      if (this.#options.tied ?? true) this.#tie()
    }
    await this.#createDatabase()
    const how = adopted === undefined ? 'started' : 'was still running'
    this.#options.log?.(`PostgreSQL ${version} ${how} on port ${this.port} (data in ${directory})`)
  }

  async stop(): Promise<void> {
    const pid = this.#postmaster?.pid
    if (pid === undefined || this.#shared) return
    if (process.platform === 'win32') this.#control('fast')
    else if (stillServes(pid, this.#cluster.directory)) await endPostmaster(pid)
    this.#ended()
  }

  async kill(): Promise<void> {
    const pid = this.pid
    if (process.platform === 'win32') {
      spawnSync('taskkill', ['/F', '/T', '/PID', String(pid)])
    } else {
      // Stopped first, so that it cannot start another child while we list them.
      signal(pid, 'SIGSTOP')
      const all = [pid, ...childrenOf(pid)]
      for (const each of all) signal(each, 'SIGKILL')
      await ended(all, 10_000)
    }
    this.#ended()
  }

  async restart(): Promise<void> {
    const port = this.#postmaster?.port
    this.#shared = false
    await this.stop()
    this.#postmaster = await this.#launch(port ?? readState(this.#cluster.home).port)
    if (this.#options.tied ?? true) this.#tie()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  get #running(): Postmaster {
    if (this.#postmaster === undefined) {
      throw new EmbeddedServerError('The embedded PostgreSQL is not running.')
    }
    return this.#postmaster
  }

  #address(database: string): string {
    const { password } = this.#cluster
    return `postgresql://${SUPERUSER}:${password}@127.0.0.1:${this.port}/${database}`
  }

  #ended(): void {
    this.#guard?.kill('SIGKILL')
    this.#guard = undefined
    this.#postmaster = undefined
  }

  /** A server that runs on the cluster and answers; one that does not answer is ended. */
  async #adopt(): Promise<Postmaster | undefined> {
    const { directory } = this.#cluster
    const found = livePostmaster(directory)
    if (found === undefined) return undefined
    // It may be starting, or stopping because its owner has just ended.
    const ready = await whenReady(directory, 30_000, () => !isAlive(found.pid))
    if (ready !== undefined && (await this.#answers(ready))) return ready
    if (isAlive(found.pid)) await endPostmaster(found.pid)
    return undefined
  }

  async #launch(sameAgain?: number): Promise<Postmaster> {
    const { settings = {} } = this.#options
    const port = this.#options.port ?? sameAgain
    const remembered = readState(this.#cluster.home).port
    for (let attempt = 1; ; attempt++) {
      const chosen = port ?? (await freePort(attempt === 1 ? remembered : undefined))
      try {
        return await launch(this.#cluster, chosen, settings)
      } catch (error) {
        if (!(error instanceof PortTakenError) || port !== undefined || attempt === 3) throw error
      }
    }
  }

  async #answers(postmaster: Postmaster): Promise<boolean> {
    this.#postmaster = postmaster
    try {
      await this.#ask('select 1')
      return true
    } catch {
      return false
    }
  }

  async #createDatabase(): Promise<void> {
    const found = await this.#ask('select from pg_database where datname = $1', [DATABASE])
    if (found > 0) return
    try {
      await this.#ask(`create database ${DATABASE}`)
    } catch (error) {
      // Somebody else was first: a duplicate, seen as such or by the unique index.
      if (!['42P04', '23505'].includes((error as pg.DatabaseError).code ?? '')) throw error
    }
  }

  async #ask(text: string, values?: string[]): Promise<number> {
    const client = new pg.Client({
      connectionString: this.#address('postgres'),
      connectionTimeoutMillis: 10_000,
    })
    client.on('error', () => {}) // the query's own error says it
    try {
      await client.connect()
      return (await client.query(text, values)).rowCount ?? 0
    } finally {
      await client.end().catch(() => {})
    }
  }

  #tie(): void {
    if (process.platform === 'win32') return
    this.#guard?.kill('SIGKILL')
    this.#guard = guardOf(this.pid, this.#cluster.directory)
  }

  #control(mode: string): void {
    const { binaries, directory } = this.#cluster
    spawnSync(binaries.pgCtl, ['stop', '-w', '-m', mode, '-D', directory], {
      env: serverEnvironment(),
      stdio: 'ignore',
      windowsHide: true,
    })
  }
}
