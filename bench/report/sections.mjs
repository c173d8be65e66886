import { engineTable, floorTable } from './bounds.mjs'
import { coresBusy, limit, part, ratioCell } from './cells.mjs'
import { consumersTable } from './consumers.mjs'
import {
  contests,
  micros,
  rate,
  referenceOf,
  roundsOf,
  short,
  spread,
  summaryOf,
  table,
  times,
  titleOf,
} from './figures.mjs'
import { workflowTable } from './workflows.mjs'

/** One section a scenario: what it measures, the chart, the table, what limits the figure. */
export function section(results, scenario) {
  const body = {
    'held-snapshot': snapshotTable,
    consumers: consumersTable,
    engine: engineTable,
    floor: floorTable,
    'wake-up': latencyTable,
    'workflow-linear': workflowTable,
    'workflow-fan': workflowTable,
  }
  const chart = !contests(results).includes(scenario)
    ? []
    : [`![${scenario.title}](benchmarks/${scenario.name}.svg)`]
  const failures = Object.entries(scenario.errors).map(
    ([name, error]) => `${titleOf(results, name)}: a round failed (${error.split('\n')[0]}).`,
  )
  const repetitions = Object.keys(scenario.figures)
    .map((name) => [name, roundsOf(scenario, name, 'repeated')])
    .map(([name, counts]) => [name, counts.reduce((sum, count) => sum + (count ?? 0), 0)])
    .filter(([, count]) => count > 0)
    .map(
      ([name, count]) =>
        `${titleOf(results, name)} ran ${rate(count)} jobs or steps more than once.`,
    )
  return [
    `## ${scenario.title}`,
    `${scenario.about} ${sizeOf(scenario)}${ownRounds(results, scenario)}`,
    ...chart,
    (body[scenario.name] ?? rateTable)(results, scenario),
    ...failures,
    ...repetitions,
  ].join('\n\n')
}

/** Says so when a scenario had another number of rounds than the page says. */
function ownRounds(results, { figures }) {
  const most = Math.max(...Object.values(figures).map((rounds) => rounds.length))
  return most === results.rounds ? '' : ` **${most} round${most === 1 ? '' : 's'} only.**`
}

function sizeOf({ size }) {
  if (size.jobs !== undefined) return `${rate(size.jobs)} jobs a round.`
  if (size.runs !== undefined) return `${rate(size.runs)} runs a round.`
  return `${short(size.ms / 1000)} s a round.`
}

function rateTable(results, scenario) {
  const reference = referenceOf(results)
  const names = Object.keys(scenario.figures)
  const columns = [
    ['system', (name) => titleOf(results, name)],
    [scenario.unit, (name) => spread(summaryOf(scenario, name))],
    [`${reference.title} ÷ it`, (name) => ratioCell(scenario, reference, name)],
    ['log bytes a job', (name) => part(scenario, name, 'logBytesPerJob', rate)],
    ['CPU a job, worker', (name) => part(scenario, name, 'workerCpuPerJob', micros)],
    ['CPU a job, server', (name) => part(scenario, name, 'serverCpuPerJob', micros)],
    ['cores busy', (name) => coresBusy(scenario, name)],
    ['what limits it', (name) => limit(results, scenario, name)],
  ].filter(([, cell], index) => index < 3 || names.some((name) => cell(name) !== '–'))
  return table(
    columns.map(([title]) => title),
    names.map((name) => columns.map(([, cell]) => cell(name))),
  )
}

function latencyTable(results, scenario) {
  const reference = referenceOf(results)
  return table(
    [
      'system',
      'p50, ms',
      'p95, ms',
      'p99, ms',
      `p50 ÷ ${reference.title}`,
      `p99 ÷ ${reference.title}`,
    ],
    Object.keys(scenario.figures).map((name) => [
      titleOf(results, name),
      ...['value', 'p95', 'p99'].map((each) => spread(summaryOf(scenario, name, each))),
      ratioCell(scenario, reference, name),
      ratioCell(scenario, reference, name, 'p99'),
    ]),
  )
}

function snapshotTable(results, scenario) {
  return table(
    [
      'system',
      'last ÷ first tenth, held',
      'the same, not held',
      'jobs/s, held',
      'jobs/s, not held',
      'jobs churned',
    ],
    Object.keys(scenario.figures).map((name) => [
      titleOf(results, name),
      times(summaryOf(scenario, name)),
      spread(summaryOf(scenario, name, 'control')),
      part(scenario, name, 'heldRate', rate),
      part(scenario, name, 'controlRate', rate),
      churned(scenario, name),
    ]),
  )
}

function churned(scenario, name) {
  const figure = summaryOf(scenario, name, 'churned')
  if (figure === undefined) return '–'
  const cut = roundsOf(scenario, name, 'outOfTime').includes(true)
  return cut ? `${rate(figure.median)} (out of time)` : rate(figure.median)
}
