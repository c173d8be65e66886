import path from 'node:path'
import type { WorkerOptions } from '../../src/index.ts'
import { Child } from '../support/child.ts'

/** What a worker process says. */
interface Saying {
  readonly event: 'ready' | 'started' | 'aborted' | 'blocking' | 'stopping'
  readonly jobId?: number
  readonly token?: number
  readonly workerId?: number
  readonly why?: string
  readonly codes?: readonly string[]
}

const script = path.join(import.meta.dirname, 'process.mjs')

/** A worker in a process of its own. */
export class WorkerProcess extends Child<Saying> {
  constructor(url: string, options: WorkerOptions, clock = 0) {
    super(script, { url, options, clock })
  }

  static async start(url: string, options: WorkerOptions, clock = 0): Promise<WorkerProcess> {
    const process = new WorkerProcess(url, options, clock)
    await process.says('ready')
    return process
  }

  get workerId(): number {
    return this.said.find(({ event }) => event === 'ready')?.workerId as number
  }

  /** The lines of its log. */
  get lines(): Record<string, unknown>[] {
    return this.stdout
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line))
  }

  /** Tells held jobs to end well. */
  go(): void {
    this.tell('go')
  }
}
