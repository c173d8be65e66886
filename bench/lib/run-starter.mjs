import process from 'node:process'
import { now } from './clock.mjs'
import { flows } from './flows.mjs'

/** Starts runs of one system's workflow, in a process of its own. */
export class RunStarter {
  #starter
  #input

  constructor(system) {
    this.system = system
  }

  async open(place, { flow, settings }) {
    this.#input = flows[flow].input
    this.#starter = await this.system.workflows.starter(place, { flow, settings })
  }

  /** See {@link startRuns}. */
  startRuns(options) {
    return startRuns(this.#starter, this.#input, options)
  }

  async close() {
    await this.#starter.close()
  }
}

/** Starts `count` runs, `size` a call, one call after the other. When it began, and what it took in ms. */
export async function startRuns(starter, input, { count, size }) {
  const cpuBefore = process.cpuUsage()
  const startedAt = now()
  for (let n = 0; n < count; n += size) {
    const inputs = Array.from({ length: Math.min(size, count - n) }, (_, index) => input(n + index))
    await starter.start(inputs)
  }
  const ms = now() - startedAt
  const { user, system } = process.cpuUsage(cpuBefore)
  return { startedAt, ms, cpuMs: (user + system) / 1000 }
}
