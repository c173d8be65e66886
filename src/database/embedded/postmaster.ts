import { readFileSync, rmSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { ended, isAlive, programName, signal } from './processes.ts'

/** What a running server tells of itself in its `postmaster.pid`. */
export interface Postmaster {
  readonly pid: number
  readonly port: number
  /** It takes connections: as a primary, or as a standby. */
  readonly ready: boolean
}

/** How often the file is read while a server starts, in ms. */
const LOOK_AGAIN = 20

/** Reads `postmaster.pid` of a cluster; undefined when there is none, or one without sense. */
export function readPostmaster(cluster: string): Postmaster | undefined {
  let text: string
  try {
    text = readFileSync(path.join(cluster, 'postmaster.pid'), 'utf8')
  } catch (error) {
    // A server that starts removes its predecessor's file, at any moment.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
  const lines = text.split('\n')
  const pid = Number(lines[0])
  if (!Number.isInteger(pid) || pid <= 0) return undefined
  return { pid, port: Number(lines[3]), ready: /^(ready|standby)/.test(lines[7] ?? '') }
}

/**
 * The server that really runs on a cluster. A `postmaster.pid` that a crash left behind, whose number
 * belongs to no process or to another program by now, is removed: PostgreSQL would refuse to start.
 */
export function livePostmaster(cluster: string): Postmaster | undefined {
  const found = readPostmaster(cluster)
  if (found === undefined) return undefined
  if (isPostgres(found.pid)) return found
  rmSync(path.join(cluster, 'postmaster.pid'), { force: true })
  return undefined
}

/**
 * Whether the process that was a cluster's server still is. Its number may be another program's by now, or that of
 * another cluster's server; but a server whose `postmaster.pid` somebody removed, with all its data, runs on.
 */
export function stillServes(pid: number, cluster: string): boolean {
  return isPostgres(pid) && (readPostmaster(cluster)?.pid ?? pid) === pid
}

/** True also where the name of a program cannot be told. */
function isPostgres(pid: number): boolean {
  return isAlive(pid) && /^postgres/.test(programName(pid) ?? 'postgres')
}

/**
 * Waits until the cluster's server takes connections. Undefined when `gone()` becomes true, or the
 * time (ms) is over, before that.
 */
export async function whenReady(
  cluster: string,
  timeout: number,
  gone: () => boolean,
): Promise<Postmaster | undefined> {
  const deadline = Date.now() + timeout
  while (!gone() && Date.now() < deadline) {
    const found = readPostmaster(cluster)
    if (found?.ready && isAlive(found.pid)) return found
    await sleep(LOOK_AGAIN)
  }
  return undefined
}

/**
 * Ends a server: fast (sessions are cut, everything is written), then, should that take more than
 * `patience` ms, at once (the next start recovers), then by force.
 */
export async function endPostmaster(pid: number, patience = 30_000): Promise<void> {
  const steps: [NodeJS.Signals, number][] = [
    ['SIGINT', patience],
    ['SIGQUIT', 10_000],
    ['SIGKILL', 5_000],
  ]
  for (const [name, timeout] of steps) {
    signal(pid, name)
    if (await ended([pid], timeout)) return
  }
}
