import { summary } from '../lib/stats.mjs'
import { barChart } from './bar-chart.mjs'
import { contests, summaryOf, titleOf } from './figures.mjs'
import { lineChart } from './line-chart.mjs'

/** The charts of a run: `[file name, SVG]`, one for each scenario that compares systems. */
export function charts(results) {
  return contests(results).map((scenario) => [
    `${scenario.name}.svg`,
    scenario.name === 'held-snapshot' ? snapshotChart(results, scenario) : bars(results, scenario),
  ])
}

function bars(results, scenario) {
  const latency = scenario.name === 'wake-up'
  const parts = latency ? ['value', 'p99'] : ['value']
  return barChart({
    title: scenario.title,
    unit: scenario.unit,
    note: `${latency ? 'median and 99th percentile; ' : ''}${scenario.higher ? 'more' : 'less'} is better`,
    bars: Object.keys(scenario.figures).flatMap((name, colour) =>
      parts
        .map((part) => ({
          name,
          colour,
          pale: part === 'p99',
          label: `${titleOf(results, name)}${latency ? `, ${part === 'value' ? 'p50' : part}` : ''}`,
          figure: summaryOf(scenario, name, part),
        }))
        .filter(({ figure }) => figure !== undefined),
    ),
  })
}

function snapshotChart(results, scenario) {
  const lines = Object.keys(scenario.figures).flatMap((name, colour) =>
    [
      { part: 'curve', label: titleOf(results, name), dashed: false },
      { part: 'controlCurve', label: '  without the snapshot', dashed: true },
    ].map(({ part, label, dashed }) => {
      const curves = scenario.figures[name].filter(Boolean).map((figure) => figure[part])
      return { name, colour, label, dashed, points: middle(curves) }
    }),
  )
  return lineChart({
    title: 'Jobs a second while a snapshot is held',
    xLabel: 'jobs churned since the snapshot was taken',
    lines: lines.filter(({ points }) => points.length > 0),
  })
}

/** The median of the rounds' curves, tenth by tenth. */
function middle(curves) {
  if (curves.length === 0) return []
  return curves[0].map((_, tenth) => [
    summary(curves.map((curve) => curve[tenth].jobs)).median,
    summary(curves.map((curve) => curve[tenth].rate)).median,
  ])
}
