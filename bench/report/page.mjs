import { median } from '../lib/stats.mjs'
import {
  advantage,
  contests,
  isOfWorkflows,
  queuesOf,
  referenceOf,
  roundsOf,
  spread,
  summaryOf,
  table,
  times,
  titleOf,
} from './figures.mjs'
import { section } from './sections.mjs'
import { workflowGlance, workflowSettings, workflowsCompared } from './workflows.mjs'

/** docs/benchmarks.md, whole. */
export function page(results) {
  const reference = referenceOf(results)
  return `${[
    '# Benchmarks',
    '<!-- Written by `npm run bench`; edit bench/report/ instead. -->',
    intro(results, reference),
    '## At a glance',
    glance(results, reference),
    ...results.scenarios.map((scenario) => section(results, scenario)),
    '## What is not comparable',
    comparable(results),
    '## Settings and versions',
    settings(results),
    '## Run it yourself',
    'Needs what `npm start` needs; the peers are installed from npm, and BullMQ plays when `redis-server` is on the path (Debian, Ubuntu: `apt-get install redis-server`).',
    '```sh\nnpm run bench              # all of it, writes this page\nnpm run bench -- --quick   # a minute or two, to see that it runs\nnpm run bench -- --help\n```',
  ].join('\n\n')}\n`
}

function intro(results, reference) {
  const { machine, stores, rounds, startedAt } = results
  return `${reference.title} beside other job queues and workflow engines: one machine (${machine.cores} cores, ${machine.memoryGb} GB, ${machine.system}), ${results.joined ? 'scenarios from several runs of one day' : 'one run'} (${startedAt.slice(0, 10)}), one PostgreSQL ${stores.postgres} with fsync on for all who use it. Clients and server share the cores. The disk makes 8 kB durable in ${machine.syncMs.toFixed(2)} ms.

The systems take turns: each round plays every system once, in a database of its own, starting with another one each time. A figure is the median of ${rounds} rounds, with the lowest and the highest in brackets. **Ratios are the figures to read**: they are taken within a round, so that what the machine does at that moment meets both sides. They travel to other machines better than rates do.${disturbance(results)}`
}

/** Said when other programs took so much of the machine that its figures are those of a busy one. */
function disturbance(results) {
  const drain = results.scenarios.find(({ name }) => name === 'drain')
  if (drain === undefined) return ''
  const all = queuesOf(results).flatMap(({ name }) => roundsOf(drain, name, 'othersCpu'))
  const taken = median(all.filter(Number.isFinite))
  if (taken === undefined || taken < 0.3) return ''
  return ` **The machine was not quiet**: other programs used ${taken.toFixed(1)} of its cores meanwhile, so rates are low and spreads are wide.`
}

function glance(results, reference) {
  const others = queuesOf(results).filter(({ name }) => name !== reference.name)
  const rows = contests(results)
    .filter((scenario) => scenario.name !== 'held-snapshot' && !isOfWorkflows(scenario))
    .flatMap((scenario) =>
      scenario.name === 'wake-up' ? latencyRows(scenario) : [rateRow(scenario)],
    )
    .map(({ label, scenario, part }) => [
      label,
      spread(summaryOf(scenario, reference.name, part)),
      ...others.map(({ name }) => times(advantage(scenario, reference.name, name, part))),
    ])
  const snapshot = results.scenarios.find(({ name }) => name === 'held-snapshot')
  const lines = [
    `How many times as good as each peer ${reference.title} is: above 1 it is the better one.`,
    table(['', reference.title, ...others.map(({ title }) => `÷ ${title}`)], rows),
  ]
  if (snapshot) lines.push(snapshotSentence(results, snapshot))
  const workflows = results.scenarios.filter(isOfWorkflows)
  if (workflows.length > 0) lines.push(workflowGlance(results, workflows))
  return lines.join('\n\n')
}

const rateRow = (scenario) => ({ label: `${scenario.title}, ${scenario.unit}`, scenario })

const latencyRows = (scenario) => [
  { label: 'Wake-up p50, ms', scenario, part: 'value' },
  { label: 'Wake-up p99, ms', scenario, part: 'p99' },
]

function snapshotSentence(results, scenario) {
  const kept = Object.keys(scenario.figures)
    .map((name) => [titleOf(results, name), summaryOf(scenario, name)])
    .filter(([, figure]) => figure !== undefined)
    .map(([title, figure]) => `${title} ${Math.round(figure.median * 100)} %`)
  return `Throughput kept at the end of a run with a held snapshot: ${kept.join(', ')}.`
}

function comparable(results) {
  const rows = queuesOf(results).map(({ title, keeps }) => [title, keeps])
  const missing = Object.entries(results.absent).map(
    ([name, reason]) => `Left out: ${name} (${reason}).`,
  )
  return [
    'The systems do not do the same work for a job. What remains of a finished one:',
    table(['system', 'what it keeps'], rows),
    'Logs of single jobs are off for all. Redis holds everything in memory and, synced each second, acknowledges a job before it is safe; the Postgres queues acknowledge after fsync. Batches in a worker’s own memory make drains faster and a crash costlier: every job that was fetched waits for its timeout. Peers run at the fastest settings that we found, starting from the ones they publish (`npm run bench -- --tune NAME` shows the search), also where a careful operator would choose smaller batches.',
    ...(results.scenarios.some(isOfWorkflows) ? [workflowsCompared(results)] : []),
    ...missing,
  ].join('\n\n')
}

function settings(results) {
  const { stores, machine, settings: servers } = results
  const list = (object) =>
    Object.entries(object)
      .map(([name, value]) => `\`${name} = ${value === '' ? "''" : value}\``)
      .join(', ')
  const rows = queuesOf(results).map((system) => [
    `${system.title}`,
    system.version ?? '–',
    code(system.settings.throughput),
    code(system.settings.latency),
  ])
  return [
    `Node ${machine.node} for every system. PostgreSQL ${stores.postgres}: ${list(servers.postgres)}; the rest as it comes, autovacuum on.${stores.redis ? ` Redis ${stores.redis}: ${list(servers.redis)}.` : ''} After the queue is filled and before it is drained, each database gets \`vacuum (analyze)\` and a checkpoint.`,
    table(['system', 'version', 'worker’s settings for throughput', 'for latency'], rows),
    ...(results.scenarios.some(isOfWorkflows) ? [workflowSettings(results)] : []),
  ].join('\n\n')
}

const code = (object) => (object === undefined ? '–' : `\`${JSON.stringify(object)}\``)
