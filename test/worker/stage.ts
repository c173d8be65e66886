import { expect } from 'vitest'
import { Fencepost, type JobDefinition, type Worker, type WorkerOptions } from '../../src/index.ts'
import type { Logger } from '../../src/telemetry/logger.ts'
import { type TestDatabase, testDatabase } from '../support/server.ts'

/** A log line as its logger got it. */
export type Line = Record<string, unknown> & { readonly level: string; readonly msg: string }

/** A logger that keeps its lines, for tests to wait for. */
export class KeptLog implements Logger {
  readonly lines: Line[]
  readonly #bound: object
  readonly #waiting: Set<(line: Line) => void>

  constructor(from?: KeptLog, bound: object = {}) {
    this.lines = from?.lines ?? []
    this.#waiting = from === undefined ? new Set() : from.#waiting
    this.#bound = bound
  }

  debug(fields: object, msg = ''): void {
    this.#add('debug', fields, msg)
  }

  info(fields: object, msg = ''): void {
    this.#add('info', fields, msg)
  }

  warn(fields: object, msg = ''): void {
    this.#add('warn', fields, msg)
  }

  error(fields: object, msg = ''): void {
    this.#add('error', fields, msg)
  }

  child(fields: object): Logger {
    return new KeptLog(this, { ...this.#bound, ...fields })
  }

  /** The lines of attempts that ended. */
  get attempts(): Line[] {
    return this.lines.filter(({ outcome }) => outcome !== undefined)
  }

  /** Resolves with the first line, written or to come, that fits. */
  find(fits: (line: Line) => boolean): Promise<Line> {
    const found = this.lines.find(fits)
    if (found !== undefined) return Promise.resolve(found)
    return new Promise((resolve) => {
      const hear = (line: Line) => {
        if (!fits(line)) return
        this.#waiting.delete(hear)
        resolve(line)
      }
      this.#waiting.add(hear)
    })
  }

  /** Resolves with the line of a job's attempt that ended so. */
  ended(job: number, outcome?: string): Promise<Line> {
    return this.find(
      (line) =>
        line.job === job &&
        line.outcome !== undefined &&
        (outcome === undefined || line.outcome === outcome),
    )
  }

  #add(level: string, fields: object, msg: string): void {
    const line: Line = { ...this.#bound, ...fields, level, msg }
    this.lines.push(line)
    for (const hear of this.#waiting) hear(line)
  }
}

/** A database with a client, and workers whose lines are kept. */
export class Stage implements AsyncDisposable {
  readonly database: TestDatabase
  readonly engine: Fencepost
  readonly log = new KeptLog()

  private constructor(database: TestDatabase) {
    this.database = database
    this.engine = new Fencepost({ url: database.url })
  }

  static async open(): Promise<Stage> {
    return new Stage(await testDatabase())
  }

  /** A worker that has started. */
  async work(definitions: readonly JobDefinition[], options: WorkerOptions = {}): Promise<Worker> {
    const worker = this.engine.worker(definitions, { logger: this.log, ...options })
    await worker.start()
    return worker
  }

  /** Waits until a worker sleeps, and so hears what it is told. */
  async asleep(): Promise<void> {
    const locks = `select from pg_locks join pg_stat_activity using (pid)
      where locktype = 'advisory' and application_name = 'fencepost listener' and datname = current_database()`
    await expect.poll(() => this.database.db.query(locks)).not.toEqual([])
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.engine.close()
    await this.database.drop()
  }
}

/** A promise with its ends. */
export function deferred<T = void>() {
  let resolve: (value: T) => void = () => {}
  let reject: (error: unknown) => void = () => {}
  const promise = new Promise<T>((yes, no) => {
    resolve = yes
    reject = no
  })
  return { promise, resolve, reject }
}

/** Resolves, never rejects, when a signal fires. */
export function fired(signal: AbortSignal): Promise<unknown> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(signal.reason)
    else signal.addEventListener('abort', () => resolve(signal.reason), { once: true })
  })
}
