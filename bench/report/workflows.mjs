import { coresBusy, limit, part, ratioCell } from './cells.mjs'
import {
  advantage,
  rate,
  referenceOf,
  short,
  spread,
  summaryOf,
  table,
  times,
  titleOf,
  workflowSystemsOf,
} from './figures.mjs'

/** Runs a second, or the time of a run: the ratio first, then what a run costs. */
export function workflowTable(results, scenario) {
  const reference = referenceOf(results)
  const ratio = scenario.higher ? `${reference.title} ÷ it` : `it ÷ ${reference.title}`
  const names = Object.keys(scenario.figures)
  const columns = [
    ['system', (name) => titleOf(results, name)],
    [ratio, (name) => ratioCell(scenario, reference, name)],
    [scenario.unit, (name) => spread(summaryOf(scenario, name))],
    ['transactions a run', (name) => part(scenario, name, 'requestsPerJob', short)],
    ['log bytes a run', (name) => part(scenario, name, 'logBytesPerJob', rate)],
    ['CPU a run, worker', (name) => part(scenario, name, 'workerCpuPerJob', cpu)],
    ['CPU a run, server', (name) => part(scenario, name, 'serverCpuPerJob', cpu)],
    ['cores busy, worker + server', (name) => coresBusy(scenario, name)],
    ['what limits it', (name) => limit(results, scenario, name)],
  ]
  return table(
    columns.map(([title]) => title),
    names.map((name) => columns.map(([, cell]) => cell(name))),
  )
}

/** How many times as good as each peer the reference is at workflows. */
export function workflowGlance(results, scenarios) {
  const reference = referenceOf(results)
  const others = workflowSystemsOf(results).filter(({ name }) => name !== reference.name)
  const rows = scenarios.map((scenario) => [
    `${scenario.title}, ${scenario.unit}`,
    spread(summaryOf(scenario, reference.name)),
    ...others.map(({ name }) => times(advantage(scenario, reference.name, name))),
  ])
  const header = ['workflows', reference.title, ...others.map(({ title }) => `÷ ${title}`)]
  return table(header, rows)
}

/** What remains of a run, and what a crash leaves. */
export function workflowsCompared(results) {
  return [
    'Nor is a run of a workflow the same thing:',
    table(
      ['system', 'what it keeps of a run', 'what is durable, and when'],
      workflowSystemsOf(results).map(({ title, workflows }) => [
        title,
        workflows.keeps,
        workflows.durable,
      ]),
    ),
    'With DBOS and absurd a step is a call inside a function that one process runs from its beginning to its end, so that a wide run has one worker however many there are. With Fencepost and pgflow the database holds the graph and hands out steps one by one. Fencepost commits many steps of many runs at once: while the results of a batch wait for their commit, a crash repeats their steps, as it repeats the one step in hand with the others. pgflow’s own worker runs on Deno alone: its SQL is called by a loop of ours around its client for Node, and what it would write for Supabase’s realtime is left out.',
  ].join('\n\n')
}

/** The settings that workflows were run with. */
export function workflowSettings(results) {
  const code = (object) => `\`${JSON.stringify(object)}\``
  return table(
    ['workflows', 'version', 'settings, three steps in a row', 'fan-out and fan-in'],
    workflowSystemsOf(results).map(({ title, version, workflows }) => [
      title,
      version ?? '–',
      code(workflows.settings.linear),
      code(workflows.settings.fan),
    ]),
  )
}

const cpu = (micros) => `${short(micros / 1000)} ms`
