import process from 'node:process'
import { now } from './clock.mjs'
import { flows } from './flows.mjs'
import { startRuns } from './run-starter.mjs'
import { Tally } from './tally.mjs'

/** Carries out the runs of one system's workflow, in a process of its own. */
export class RunWorker {
  #system
  #tell
  #flow
  #worker
  #tally = new Tally({ expected: 0 })
  #cpuBefore

  /** `tell(event, data)` reaches the process that directs the benchmark. */
  constructor(system, tell) {
    this.#system = system
    this.#tell = tell
  }

  async start(place, { flow, settings }) {
    this.#flow = flows[flow]
    const steps = this.#flow.stepsOf({ handle: (n) => this.#tally.handle(n) })
    this.#worker = await this.#system.workflows.worker(place, { flow, settings, steps })
  }

  /** From now on `runs` runs will come, numbered from 0; tells `handled` at their last step. */
  expect(runs) {
    this.#cpuBefore = process.cpuUsage()
    this.#tally = new Tally({
      expected: runs * this.#flow.handledPerRun,
      whenExpected: () => this.#tell('handled', { at: now() }),
    })
  }

  /** Where a system's best way to start a run is in the process that carries it out. */
  startRuns(options) {
    return startRuns(this.#worker, this.#flow.input, options)
  }

  /** What the steps saw, and the CPU time of the whole process since `expect`. */
  report() {
    const { user, system } = process.cpuUsage(this.#cpuBefore)
    return {
      ...this.#tally.report(),
      cpuMs: (user + system) / 1000,
      memoryMb: process.memoryUsage.rss() / 2 ** 20,
    }
  }

  async stop() {
    await this.#worker?.stop()
  }
}
