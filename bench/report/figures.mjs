import { ratios, summary } from '../lib/stats.mjs'

/** The system that the others are compared with: ours, or the first that was there. */
export const referenceOf = (results) =>
  results.systems.find(({ name }) => name === 'fencepost') ?? results.systems[0]

/** The systems that are queues: not the floor, nor a part of one of them. */
export const queuesOf = (results) => results.systems.filter(({ keeps }) => keeps !== undefined)

/** The systems that run workflows. */
export const workflowSystemsOf = (results) =>
  results.systems.filter(({ workflows }) => workflows !== undefined)

export const isOfWorkflows = ({ name }) => name.startsWith('workflow-')

/** The scenarios in which systems meet. */
export const contests = (results) =>
  results.scenarios.filter(({ name }) => !['floor', 'engine', 'consumers'].includes(name))

export const titleOf = (results, name) =>
  results.systems.find((system) => system.name === name)?.title ?? name

/** A part of each round's figure, such as `value` or `p99`; undefined where a round failed. */
export const roundsOf = (scenario, name, part = 'value') =>
  Array.from(scenario.figures[name] ?? [], (figure) => figure?.[part])

export const summaryOf = (scenario, name, part) =>
  summary(roundsOf(scenario, name, part).filter((value) => value !== undefined))

/** How many times as good as another system the reference is, above 1 when it is better. */
export function advantage(scenario, reference, name, part) {
  const mine = roundsOf(scenario, reference, part)
  const theirs = roundsOf(scenario, name, part)
  return scenario.higher ? ratios(mine, theirs) : ratios(theirs, mine)
}

export const rate = (value) => Math.round(value).toLocaleString('en')

export const short = (value) =>
  value >= 100 ? rate(value) : value >= 10 ? value.toFixed(1) : value.toFixed(2)

export const micros = (value) => (value === undefined ? '–' : `${value.toFixed(1)} µs`)

/** A median with its spread: `48,089 (46,926…49,252)`. */
export const spread = (figure, format = short) =>
  figure === undefined
    ? '–'
    : `${format(figure.median)} (${format(figure.min)}…${format(figure.max)})`

export const times = (figure) =>
  figure === undefined ? '–' : `**${figure.median.toFixed(2)}** (${spreadOnly(figure)})`

const spreadOnly = ({ min, max }) => `${min.toFixed(2)}…${max.toFixed(2)}`

/** A Markdown table from its header and rows. */
export function table(header, rows) {
  const line = (cells) => `| ${cells.join(' | ')} |`
  return [line(header), line(header.map(() => '---')), ...rows.map(line)].join('\n')
}
