import { summary } from '../lib/stats.mjs'
import { micros, rate, referenceOf, spread, summaryOf, table } from './figures.mjs'

/** What bounds any queue on this server: plain rows in batches, and one by one. */
export function floorTable(results, scenario) {
  const cases = new Map()
  for (const round of scenario.figures.floor.filter(Boolean)) {
    for (const each of round.cases) {
      const key = `${each.batch} ${each.connections}`
      cases.set(key, [...(cases.get(key) ?? []), each])
    }
  }
  const rows = [...cases.values()].map((rounds) => {
    const { batch, connections } = rounds[0]
    return [
      rate(batch),
      connections,
      ...['both', 'insert', 'delete'].map((each) =>
        spread(summary(rounds.map((one) => one[each]))),
      ),
      shareOfFloor(results, summary(rounds.map(({ both }) => both))),
    ]
  })
  const reference = referenceOf(results)
  const singles = ['plain', 'notifying'].map((kind) => [
    kind === 'plain' ? 'one row a transaction' : 'the same, with a NOTIFY in it',
    spread(summary(scenario.figures.floor.filter(Boolean).map((round) => round.singles[kind]))),
  ])
  const batches = table(
    [
      'rows a batch',
      'connections',
      'insert and delete',
      'insert alone',
      'delete alone',
      `drain of ${reference.title} ÷ insert and delete`,
    ],
    rows,
  )
  return [batches, table(['8 connections', 'rows/s'], singles)].join('\n\n')
}

function shareOfFloor(results, floor) {
  const drain = results.scenarios.find(({ name }) => name === 'drain')
  const figure = drain && summaryOf(drain, referenceOf(results).name)
  return figure ? (figure.median / floor.median).toFixed(2) : '–'
}

/** The engine's functions beside the statements that write the same rows. */
export function engineTable(_results, scenario) {
  const rounds = scenario.figures.engine.filter(Boolean)
  const rows = rounds[0].cases.map(({ batch }, index) => {
    const of = (side, step) => rounds.map(({ cases }) => cases[index][side][step])
    const share = (step) =>
      summary(of('engine', step).map((value, round) => value / of('plain', step)[round]))
    return [
      rate(batch),
      ...['enqueue', 'drain'].flatMap((step) => [
        spread(summary(of('engine', step))),
        spread(summary(of('plain', step))),
        spread(share(step)),
      ]),
      ...['engine', 'plain'].map((side) => micros(summary(of(side, 'cpuPerJob'))?.median)),
    ]
  })
  return table(
    [
      'jobs a batch',
      'enqueue, jobs/s',
      'the same rows',
      'ratio',
      'exchange, jobs/s',
      'the same rows',
      'ratio',
      'server CPU a job in exchange',
      'the same rows',
    ],
    rows,
  )
}
