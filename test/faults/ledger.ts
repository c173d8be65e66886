import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'

/** What handlers wrote of one attempt, outside the database. */
export interface Entry {
  readonly job: number
  readonly token: number
  /** How often a handler began under this token. */
  begun: number
  /** How often its effect happened. */
  done: number
  /** How often its worker heard that the engine had accepted its completion. */
  accepted: number
}

/** The files, one for each process, in which handlers write down what they do, line by line: it outlives whoever is killed. */
export class Ledger {
  readonly directory = mkdtempSync(path.join(tmpdir(), 'fencepost-ledger-'))

  /** All attempts of each job, in the order of their tokens. */
  read(): Map<number, Entry[]> {
    const entries = new Map<string, Entry>()
    for (const name of readdirSync(this.directory)) {
      // A process that is killed in the middle of a line leaves a part of it.
      const lines = readFileSync(path.join(this.directory, name), 'utf8').split('\n').slice(0, -1)
      for (const line of lines) record(entries, line)
    }
    const jobs = new Map<number, Entry[]>()
    for (const entry of entries.values()) {
      const attempts = jobs.get(entry.job)
      if (attempts === undefined) jobs.set(entry.job, [entry])
      else attempts.push(entry)
    }
    for (const attempts of jobs.values()) attempts.sort((a, b) => a.token - b.token)
    return jobs
  }

  remove(): void {
    rmSync(this.directory, { recursive: true, force: true })
  }
}

function record(entries: Map<string, Entry>, line: string): void {
  const [what, job, token] = line.split(' ')
  const key = `${job} ${token}`
  let entry = entries.get(key)
  if (entry === undefined) {
    entry = { job: Number(job), token: Number(token), begun: 0, done: 0, accepted: 0 }
    entries.set(key, entry)
  }
  if (what === 'begun' || what === 'done' || what === 'accepted') entry[what] += 1
  else throw new Error(`a line of the ledger is wrong: ${line}`)
}
