import { advantage, summaryOf, times } from './figures.mjs'

/** How many times as good as this system the reference is. */
export function ratioCell(scenario, reference, name, each) {
  return name === reference.name ? '1' : times(advantage(scenario, reference.name, name, each))
}

/** The median of a part of a system's figures. */
export function part(scenario, name, each, format) {
  const figure = summaryOf(scenario, name, each)
  return figure === undefined ? '–' : format(figure.median)
}

export function coresBusy(scenario, name) {
  const parts = ['workerCpu', 'serverCpu'].map((each) => summaryOf(scenario, name, each))
  return parts.includes(undefined) ? '–' : parts.map(({ median }) => median.toFixed(2)).join(' + ')
}

/** Read from where the time went: a worker is one thread, and the machine has so many cores. */
export function limit(results, scenario, name) {
  const [worker, server] = ['workerCpu', 'serverCpu'].map((each) => summaryOf(scenario, name, each))
  if (worker === undefined || server === undefined) return '–'
  const { cores } = results.machine
  if (worker.median > 0.85) return 'the worker’s one thread'
  const [starter, others] = ['starterCpu', 'othersCpu'].map(
    (each) => summaryOf(scenario, name, each)?.median ?? 0,
  )
  const own = worker.median + server.median + starter
  if (own > 0.85 * cores) return `all ${cores} cores are busy`
  if (own + others > 0.85 * cores) return 'other programs on the machine'
  return 'waiting: round trips, locks, the disk'
}
