import { parseArgs } from 'node:util'

export const USAGE = `npm run bench -- [options]
  --quick                 smaller sizes, one round: a minute or two; docs/benchmarks.md stays as it is
  --rounds N              rounds of each scenario (3; 1 with --quick)
  --scenario a,b          only these
  --system a,b            only these
  --report FILE           write docs/benchmarks.md again from a file in bench/results/
  --tune SYSTEM           try a peer's settings on this machine, and print what each is worth
  --list                  the names of scenarios and systems`

/** The options of the command line; throws a sentence when one is not known. */
export function readOptions(args, { scenarios, systems }) {
  const { values } = parseArgs({
    args,
    options: {
      quick: { type: 'boolean', default: false },
      rounds: { type: 'string' },
      scenario: { type: 'string' },
      system: { type: 'string' },
      report: { type: 'string' },
      tune: { type: 'string' },
      list: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  })
  const rounds = values.rounds === undefined ? (values.quick ? 1 : 3) : Number(values.rounds)
  if (!Number.isInteger(rounds) || rounds < 1) throw new Error('--rounds takes a whole number')
  return {
    ...values,
    rounds,
    mode: values.quick ? 'quick' : 'full',
    scenarios: chosen(scenarios, values.scenario, 'scenario'),
    systems: chosen(systems, values.system, 'system'),
    complete: values.scenario === undefined && values.system === undefined && !values.quick,
  }
}

function chosen(all, names, kind) {
  if (names === undefined) return all
  return names.split(',').map((name) => {
    const found = all.find((each) => each.name === name)
    if (found === undefined) {
      throw new Error(`no ${kind} "${name}"; there are ${all.map((each) => each.name).join(', ')}`)
    }
    return found
  })
}
