import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'

type Environment = Readonly<Record<string, string | undefined>>

/** What a running `fencepost dev` tells other commands of itself, in `dev.json` of its directory. */
export interface DevState {
  readonly pid: number
  /** Its embedded database. Left out when DATABASE_URL chose another one: that is not ours to write down. */
  readonly databaseUrl?: string
  readonly apiUrl: string
}

/** Where `fencepost dev` keeps its data: FENCEPOST_DATA_DIR, else `.fencepost` here. */
export function dataDirectory(env: Environment): string {
  return path.resolve(env.FENCEPOST_DATA_DIR || '.fencepost')
}

/** The `fencepost dev` that runs in this directory; undefined when none does. */
export function runningDev(env: Environment): DevState | undefined {
  let state: DevState
  try {
    state = JSON.parse(readFileSync(stateFile(env), 'utf8')) as DevState
  } catch {
    return undefined
  }
  return isAlive(state.pid) ? state : undefined
}

/** Readable by this account alone: the address holds a password. */
export function writeDevState(env: Environment, state: DevState): void {
  mkdirSync(dataDirectory(env), { recursive: true })
  rmSync(stateFile(env), { force: true })
  writeFileSync(stateFile(env), `${JSON.stringify(state)}\n`, { mode: 0o600 })
}

export function removeDevState(env: Environment): void {
  rmSync(stateFile(env), { force: true })
}

function stateFile(env: Environment): string {
  return path.join(dataDirectory(env), 'dev.json')
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
