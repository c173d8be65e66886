import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { closeSync, existsSync, openSync, readFileSync, renameSync, statSync } from 'node:fs'
import path from 'node:path'
import { type Cluster, serverEnvironment } from './cluster.ts'
import { EmbeddedServerError } from './errors.ts'
import { livePostmaster, type Postmaster, whenReady } from './postmaster.ts'

/** A crashed server first replays its log, which can take a while. In ms. */
const START_TIMEOUT = 120_000
/** The log is moved aside at a start when it has grown beyond this. In bytes. */
const LOG_LIMIT = 10_000_000

/** The port was taken between the moment it was found free and the server's start. */
export class PortTakenError extends EmbeddedServerError {}

/** Settings of the server by name, as in postgresql.conf. */
export type ServerSettings = Readonly<Record<string, string | number | boolean>>

/**
 * Starts the server on a cluster and waits until it takes connections. It listens on 127.0.0.1
 * alone, without Unix sockets, whose paths may be at most 107 bytes long.
 */
export async function launch(
  cluster: Cluster,
  port: number,
  settings: ServerSettings,
): Promise<Postmaster> {
  const logFile = path.join(cluster.home, 'server.log')
  if (existsSync(logFile) && statSync(logFile).size > LOG_LIMIT) renameSync(logFile, `${logFile}.1`)
  const before = existsSync(logFile) ? statSync(logFile).size : 0
  const flags = Object.entries({
    port,
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    timezone: 'UTC',
    ...settings,
  }).map(([name, value]) => `${name}=${value}`)

  let failure: Error | undefined
  let gone = false
  if (process.platform === 'win32') {
    startByControl(cluster, flags, logFile)
  } else {
    const child = startDirectly(cluster, flags, logFile)
    child.once('error', (error) => {
      failure = error
      gone = true
    })
    child.once('exit', () => {
      gone = true
    })
  }

  const started = await whenReady(cluster.directory, START_TIMEOUT, () => gone)
  if (started !== undefined && !gone) return started
  // Two processes may start the same cluster: the other's server is as good.
  const other = livePostmaster(cluster.directory)
  if (other !== undefined) {
    const ready = await whenReady(cluster.directory, START_TIMEOUT, () => false)
    if (ready !== undefined) return ready
  }
  const said = existsSync(logFile) ? readFileSync(logFile).subarray(before).toString() : ''
  const reason = failure?.message ?? lastComplaint(said) ?? 'it said nothing'
  if (/could not bind|could not create any TCP/.test(said)) {
    throw new PortTakenError(
      `Port ${port} of 127.0.0.1 is taken: the embedded PostgreSQL needs another one.`,
    )
  }
  throw new EmbeddedServerError(
    `The embedded PostgreSQL did not start in ${cluster.directory}: ${reason} (more in ${logFile})`,
  )
}

/** In a session of its own: Ctrl-C in a terminal is for us, and we stop the server when we are done. */
function startDirectly(cluster: Cluster, flags: string[], logFile: string): ChildProcess {
  const log = openSync(logFile, 'a')
  try {
    const child = spawn(
      cluster.binaries.postgres,
      ['-D', cluster.directory, ...flags.flatMap((flag) => ['-c', flag])],
      {
        ...cluster.account.ids,
        cwd: cluster.directory,
        env: serverEnvironment(),
        stdio: ['ignore', log, log],
        detached: true,
      },
    )
    child.unref()
    return child
  } finally {
    closeSync(log)
  }
}

/** Windows: postgres refuses an administrator's rights, which pg_ctl knows how to give up. */
function startByControl(cluster: Cluster, flags: string[], logFile: string): void {
  const options = flags.map((flag) => `-c "${flag}"`).join(' ')
  spawnSync(
    cluster.binaries.pgCtl,
    ['start', '-W', '-D', cluster.directory, '-l', logFile, '-o', options],
    { env: serverEnvironment(), stdio: 'ignore', windowsHide: true },
  )
}

function lastComplaint(said: string): string | undefined {
  const lines = said.trim().split('\n')
  const complaint = lines.filter((line) => /\b(FATAL|PANIC|ERROR):/.test(line)).pop()
  return (complaint ?? lines.pop())?.replace(/^.*?(?=(FATAL|PANIC|ERROR):)/, '') || undefined
}
