import { appendFileSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'

/** What was seen at work: a function called, an error code raised, a route answered well or refused. */
export type Kind = 'function' | 'code' | 'route'

/** What the test files saw at work, gathered over processes in a directory of small files. */
export class Gathered {
  readonly directory: string

  /** Without a directory, begins a new one. */
  constructor(directory?: string) {
    this.directory = directory ?? mkdtempSync(path.join(tmpdir(), 'fencepost-gathered-'))
  }

  add(kind: Kind, names: readonly string[]): void {
    if (names.length === 0) return
    const file = path.join(this.directory, `${kind}-${process.pid}`)
    appendFileSync(file, `${names.join('\n')}\n`)
  }

  all(kind: Kind): Set<string> {
    const files = readdirSync(this.directory).filter((name) => name.startsWith(`${kind}-`))
    const texts = files.map((name) => readFileSync(path.join(this.directory, name), 'utf8'))
    return new Set(texts.flatMap((text) => text.split('\n')).filter((name) => name !== ''))
  }

  remove(): void {
    rmSync(this.directory, { recursive: true, force: true })
  }
}
