import { flows } from '../lib/flows.mjs'
import { median } from '../lib/stats.mjs'
import { reading, usage } from '../lib/usage.mjs'
import { playRuns, withWorkflow } from './workflows/play.mjs'

const WIDTH = flows.fan.width.toLocaleString('en')

/** How long one wide run takes. */
export const workflowFan = {
  name: 'workflow-fan',
  title: 'Fan-out and fan-in',
  about: `One run fans out to ${WIDTH} tasks, whose results a last one is given. Runs are started one after the other, each when the store says that the one before has completed. From the call that starts a run until then; the median of a round’s runs.`,
  unit: 'ms a run',
  higher: false,
  sizes: {
    quick: { runs: 3, warmUp: 1, within: 60_000 },
    full: { runs: 9, warmUp: 2, within: 60_000 },
  },
  suits: (system) => system.workflows !== undefined,

  async round(stage, system, { runs, warmUp, within }, settings = system.workflows.settings.fan) {
    return await withWorkflow(stage, system, 'fan', settings, async (crew) => {
      for (let n = 0; n < warmUp; n++) await playRuns(crew, 1, within)
      await crew.settle()
      const before = await reading(crew.costs)
      const times = []
      const sum = { repeated: 0, worker: 0, starter: 0 }
      for (let n = 0; n < runs; n++) {
        const { startedAt, completedAt, started, report } = await playRuns(crew, 1, within)
        times.push(completedAt - startedAt)
        sum.repeated += report.repeated
        sum.worker += report.cpuMs
        if (crew.apart) sum.starter += started.cpuMs
      }
      const after = await reading(crew.costs)
      return {
        value: median(times),
        slowest: Math.max(...times),
        repeated: sum.repeated,
        ...usage(before, after, {
          ms: times.reduce((total, ms) => total + ms, 0),
          count: runs,
          worker: sum.worker,
          starter: sum.starter,
        }),
      }
    })
  },
}
