import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

/** How often a process that is not our child is looked at while we wait for its end, in ms. */
const LOOK_AGAIN = 20

/** True while the process runs. A zombie, which only waits to be collected, does not. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
  } catch (error) {
    // EPERM: it runs as somebody else.
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') return false
  }
  return process.platform !== 'linux' || linuxStatus(pid)?.state !== 'Z'
}

/**
 * Waits until none of the processes runs, and those that are our children are collected: before
 * that a new server takes its predecessor's number for a process. False when `timeout` (ms) passes first.
 */
export async function ended(pids: readonly number[], timeout: number): Promise<boolean> {
  const deadline = Date.now() + timeout
  while (pids.some((pid) => isAlive(pid) || isOurZombie(pid))) {
    if (Date.now() > deadline) return false
    await sleep(LOOK_AGAIN)
  }
  return true
}

/** The name of a running program, without its directory; undefined when it cannot be told. */
export function programName(pid: number): string | undefined {
  if (process.platform === 'linux') return linuxStatus(pid)?.name
  if (process.platform === 'win32') return undefined
  const { status, stdout } = spawnSync('ps', ['-o', 'comm=', '-p', String(pid)])
  return status === 0 ? String(stdout).trim().split('/').pop() : undefined
}

/** The direct children of a process. */
export function childrenOf(pid: number): number[] {
  if (process.platform === 'win32') return []
  if (process.platform === 'linux') {
    return readdirSync('/proc')
      .map(Number)
      .filter((candidate) => candidate > 0 && linuxStatus(candidate)?.parent === pid)
  }
  const { stdout } = spawnSync('ps', ['-A', '-o', 'pid=,ppid='])
  return String(stdout)
    .split('\n')
    .map((line) => line.trim().split(/\s+/).map(Number))
    .filter(([, parent]) => parent === pid)
    .map(([child]) => Number(child))
}

/** Sends a signal; a process that is gone already is no error. */
export function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

function isOurZombie(pid: number): boolean {
  return process.platform === 'linux' && linuxStatus(pid)?.parent === process.pid
}

function linuxStatus(pid: number): { name: string; state: string; parent: number } | undefined {
  let line: string
  try {
    line = readFileSync(`/proc/${pid}/stat`, 'utf8')
  } catch {
    return undefined
  }
  // pid (name) state ppid …; the name may hold spaces and parentheses.
  const end = line.lastIndexOf(')')
  const [state = '', parent = ''] = line.slice(end + 2).split(' ')
  return { name: line.slice(line.indexOf('(') + 1, end), state, parent: Number(parent) }
}
