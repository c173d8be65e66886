import process from 'node:process'
import { now } from './clock.mjs'
import { Tally } from './tally.mjs'

/** Runs one system's worker, in a process of its own. */
export class WorkerHost {
  #system
  #tell
  #worker
  #tally
  #progress
  #cpuBefore

  /** `tell(event, data)` reaches the process that directs the benchmark. */
  constructor(system, tell) {
    this.#system = system
    this.#tell = tell
  }

  /**
   * Starts the worker, which handles up to `expected` jobs. Tells `handled` at the last of them, and
   * `progress` each `progressEvery` ms.
   */
  async start(place, { settings, expected, times, progressEvery }) {
    this.#tally = new Tally({
      expected,
      times,
      whenExpected: () => this.#tell('handled', { at: now() }),
    })
    const startedAt = now()
    const handle = ({ n }) => {
      this.#cpuBefore ??= process.cpuUsage()
      this.#tally.handle(n)
    }
    this.#worker = await this.#system.worker(place, { settings, handle })
    if (progressEvery !== undefined) {
      this.#progress = setInterval(() => {
        this.#tell('progress', { at: now(), handled: this.#tally.handled })
      }, progressEvery)
    }
    return { startedAt }
  }

  /** What the handler saw, and the CPU time of the whole process since its first job. */
  report() {
    const { user, system } = process.cpuUsage(this.#cpuBefore)
    return {
      ...this.#tally.report(),
      cpuMs: (user + system) / 1000,
      memoryMb: process.memoryUsage.rss() / 2 ** 20,
    }
  }

  async stop() {
    clearInterval(this.#progress)
    await this.#worker?.stop()
  }
}
