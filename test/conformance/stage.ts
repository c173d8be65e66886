import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, expect } from 'vitest'
import type { Database } from '../../src/database/database.ts'
import { json } from '../../src/database/database.ts'
import { required } from '../support/required.ts'
import { type TestDatabase, testDatabase } from '../support/server.ts'
import { type Driver, WorkerProcess } from './drivers.ts'

/** What the handler is told; see handler.mjs. */
export interface Task {
  readonly do: 'echo' | 'fail' | 'permanent' | 'hold'
  readonly key?: string
  readonly times?: number
  readonly message?: string
  readonly value?: unknown
}

/** A job as the view `jobs` shows it. */
export interface Job {
  readonly status: string
  readonly result: unknown
  readonly attempts: number
  readonly last_error: string | null
  readonly available_at: Date
  readonly updated_at: Date
  readonly worker: string | null
}

/** How often it is looked for what a worker process does at once: it starts, or polls. */
export const SOON = { interval: 25 }

/** Where one driver is put to the test: a database, a type of its own for each test, its processes and their ledger. */
export class Stage {
  readonly #driver: Driver
  #database: TestDatabase | undefined
  #tools: string[] = []
  #directory = ''
  #processes: WorkerProcess[] = []
  #count = 0

  /** To be made inside a `describe`: it prepares and clears away by hooks. */
  constructor(driver: Driver) {
    this.#driver = driver
    beforeAll(async () => {
      this.#database = await testDatabase()
    })
    beforeEach((context) => {
      this.#tools = driver.tools.map((tool) => required(tool, context))
      this.#count += 1
      this.#directory = mkdtempSync(path.join(tmpdir(), 'fencepost-conformance-'))
    })
    afterEach(async () => {
      for (const each of this.#processes) await each.kill()
      this.#processes = []
      rmSync(this.#directory, { recursive: true, force: true })
    })
    afterAll(() => this.#database?.drop())
  }

  get db(): Database {
    if (this.#database === undefined) throw new Error('the stage is not set yet')
    return this.#database.db
  }

  get type(): string {
    return `${this.#driver.name}.${this.#count}`
  }

  /** Starts a worker of this test's type, and waits until it has registered. */
  async start(): Promise<WorkerProcess> {
    const before = await this.workers('active')
    const url = this.#database?.url ?? ''
    const command = this.#driver.command(url, [this.type], this.#tools)
    const worker = new WorkerProcess(command, this.#directory)
    this.#processes.push(worker)
    await expect.poll(() => this.workers('active'), SOON).toBe(before + 1)
    return worker
  }

  async enqueue(payload: Task | unknown, options: { maxAttempts?: number } = {}): Promise<number> {
    const rows = await this.db.query<{ id: number }>(
      'select fencepost.enqueue($1, $2, max_attempts => $3) as id',
      [this.type, json(payload), options.maxAttempts ?? null],
    )
    return rows[0]?.id ?? 0
  }

  async job(id: number): Promise<Job> {
    const [job] = await this.db.query<Job>(
      `select status, result, attempts, last_error, available_at, updated_at, worker
       from fencepost.jobs where id = $1`,
      [id],
    )
    if (job === undefined) throw new Error(`job ${id} is gone`)
    return job
  }

  /** Waits until the job is in this status, and gives it. */
  async reach(id: number, status: string): Promise<Job> {
    await expect.poll(async () => (await this.job(id)).status, SOON).toBe(status)
    return this.job(id)
  }

  /** How each attempt of a job ended, in order. */
  async outcomes(id: number): Promise<(string | null)[]> {
    const rows = await this.db.query<{ outcome: string | null }>(
      'select outcome from fencepost.attempts where job_id = $1 order by token',
      [id],
    )
    return rows.map(({ outcome }) => outcome)
  }

  /** How many workers of this test's type have this status. */
  async workers(status: string): Promise<number> {
    const rows = await this.db.query<{ count: number }>(
      'select count(*) from fencepost.workers where status = $1 and types @> array[$2]',
      [status, this.type],
    )
    return rows[0]?.count ?? 0
  }

  /** Waits until a handler of this key runs. */
  async begun(key: string, times = 1): Promise<void> {
    const begins = () => this.ledger().filter((line) => line === `begin ${key}`).length
    await expect.poll(begins, SOON).toBe(times)
  }

  /** Lets the handlers of this key that hold go on. */
  go(key: string): void {
    writeFileSync(path.join(this.#directory, `go-${key}`), '')
  }

  /** `begin KEY` and `end KEY`, a line for each run of a handler, in order. */
  ledger(): string[] {
    try {
      const text = readFileSync(path.join(this.#directory, 'ledger'), 'utf8')
      return text.split('\n').filter((line) => line !== '')
    } catch {
      return [] // nothing has run yet
    }
  }

  async maintain(): Promise<void> {
    await this.db.query('select fencepost.maintain()')
  }
}
