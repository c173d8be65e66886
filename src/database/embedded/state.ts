import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import path from 'node:path'

/** What is remembered of an embedded server beside its cluster, in `server.json`. */
export interface ServerState {
  /** The port of the last start, taken again when it is free. */
  readonly port?: number
  /** The process that will stop the server. */
  readonly owner?: number
}

export function readState(home: string): ServerState {
  const file = stateFile(home)
  if (!existsSync(file)) return {}
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as ServerState
  } catch {
    return {} // nothing in it is needed
  }
}

export function writeState(home: string, state: ServerState): void {
  mkdirSync(home, { recursive: true })
  const unfinished = `${stateFile(home)}.${process.pid}`
  writeFileSync(unfinished, `${JSON.stringify(state)}\n`)
  renameSync(unfinished, stateFile(home))
}

function stateFile(home: string): string {
  return path.join(home, 'server.json')
}
