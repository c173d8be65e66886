import { rate, roundsOf, spread, summaryOf, table, times } from './figures.mjs'

const NAME = 'engine'

/** What readers cost the engine, and what being far behind costs a reader. */
export function consumersTable(_results, scenario) {
  const of = (part) => summaryOf(scenario, NAME, part)
  const shares = roundsOf(scenario, NAME, 'readWhileDraining').filter(Boolean)
  const least = Math.min(...shares.flat())
  const latest = Math.max(...roundsOf(scenario, NAME, 'catchUpMs').filter(Boolean))
  const engine = table(
    ['ratio', 'drain with three readers, jobs/s', 'drain without, jobs/s'],
    [[times(of('value')), spread(of('followed'), rate), spread(of('alone'), rate)]],
  )
  const readers = table(
    ['ratio', 'from far behind, events/s', 'close to the end, events/s'],
    [[times(of('farByNear')), spread(of('farRate'), rate), spread(of('nearRate'), rate)]],
  )
  return [
    engine,
    `When the queue was empty each reader had read and acknowledged at least ${Math.floor(least * 100)} % of the events; the rest took them ${rate(latest)} ms at most.`,
    `A log of ${rate(scenario.size.behind)} events, read from its beginning and close to its end, 2,000 events a call:`,
    readers,
  ].join('\n\n')
}
