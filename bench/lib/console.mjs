import { summary } from './stats.mjs'

/** The main figures of a run, for the terminal. */
export function printTables({ scenarios, systems }) {
  const title = (name) => systems.find((system) => system.name === name).title
  for (const { title: heading, unit, figures, errors } of scenarios) {
    console.log(`\n${heading} (${unit})`)
    for (const [name, rounds] of Object.entries(figures)) {
      const figure = summary(rounds.filter(Boolean).map(({ value }) => value))
      const text = figure
        ? `${short(figure.median)}  (${short(figure.min)}…${short(figure.max)})`
        : `failed: ${errors[name].split('\n')[0]}`
      console.log(`  ${title(name).padEnd(34)} ${text}`)
    }
  }
}

const short = (value) => (value < 100 ? value.toFixed(2) : Math.round(value).toLocaleString('en'))
