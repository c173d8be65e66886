import { reading, usage } from '../lib/usage.mjs'
import { playRuns, withWorkflow } from './workflows/play.mjs'

/** How many three-step runs a second one worker process carries out, from their start to their end. */
export const workflowLinear = {
  name: 'workflow-linear',
  title: 'Three steps in a row',
  about:
    'Runs of a workflow of three steps, each given what the one before returned. One process starts them as fast as it can while one worker process, idle before, carries them out; a system that is faster when the worker starts them itself does that. From the first call that starts a run until the store says that all of them have completed.',
  unit: 'runs/s',
  higher: true,
  sizes: {
    quick: { runs: 1000, warmUp: 200, within: 60_000 },
    full: { runs: 10_000, warmUp: 1000, within: 180_000 },
  },
  suits: (system) => system.workflows !== undefined,

  async round(
    stage,
    system,
    { runs, warmUp, within },
    settings = system.workflows.settings.linear,
  ) {
    return await withWorkflow(stage, system, 'linear', settings, async (crew) => {
      await playRuns(crew, warmUp, within)
      await crew.settle()
      const before = await reading(crew.costs)
      const { startedAt, completedAt, started, report } = await playRuns(crew, runs, within)
      const after = await reading(crew.costs)
      const ms = completedAt - startedAt
      return {
        value: (runs / ms) * 1000,
        startRate: crew.apart ? (runs / started.ms) * 1000 : undefined,
        repeated: report.repeated,
        starterCpuPerJob: crew.apart ? (started.cpuMs / runs) * 1000 : undefined,
        workerMemoryMb: report.memoryMb,
        ...usage(before, after, {
          ms,
          count: runs,
          worker: report.cpuMs,
          starter: crew.apart ? started.cpuMs : 0,
        }),
      }
    })
  },
}
