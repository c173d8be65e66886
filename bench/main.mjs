// Runs the benchmarks: rounds interleaved, each system in a fresh place, results to bench/results/.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import process from 'node:process'
import { fileURLToPath } from 'node:url'
import { printTables } from './lib/console.mjs'
import { machineFacts } from './lib/machine.mjs'
import { readOptions, USAGE } from './lib/options.mjs'
import { SETTINGS as POSTGRES_SETTINGS } from './lib/postgres.mjs'
import { SETTINGS as REDIS_SETTINGS } from './lib/redis.mjs'
import { Stage } from './lib/stage.mjs'
import { tune } from './lib/tune.mjs'
import { storeVersions, versionOf } from './lib/versions.mjs'
import { writeReport } from './report/write.mjs'
import { scenarios } from './scenarios/index.mjs'
import { systems } from './systems/index.mjs'

const RESULTS = fileURLToPath(new URL('./results/', import.meta.url))
const say = (line) => process.stderr.write(`${line}\n`)

let options
try {
  options = readOptions(process.argv.slice(2), { scenarios, systems })
} catch (error) {
  say(`${error.message}\n\n${USAGE}`)
  process.exit(2)
}
if (options.help) say(USAGE)
else if (options.list) {
  say(`scenarios: ${scenarios.map(({ name }) => name).join(', ')}`)
  say(`systems: ${systems.map(({ name }) => name).join(', ')}`)
} else if (options.report) {
  say(writeReport(JSON.parse(readFileSync(options.report, 'utf8'))))
} else await onStage(options.tune ? (stage) => tune(stage, options, say) : run)

/** Opens the servers, and closes them in whatever way this ends. */
async function onStage(play) {
  const stage = await Stage.open()
  let stopping
  const stop = () => {
    stopping ??= stage.close()
    return stopping
  }
  for (const signal of ['SIGINT', 'SIGTERM']) {
    process.once(signal, () => stop().finally(() => process.exit(130)))
  }
  try {
    await play(stage)
  } finally {
    await stop()
  }
}

async function run(stage) {
  const present = []
  const absent = {}
  for (const system of options.systems) {
    try {
      await system.load()
      present.push(system)
    } catch (error) {
      absent[system.name] =
        error.code === 'ERR_MODULE_NOT_FOUND' ? 'not installed' : error.message.split('\n')[0]
      say(`${system.title} is left out: ${absent[system.name]}`)
    }
  }
  const results = {
    startedAt: new Date().toISOString(),
    mode: options.mode,
    rounds: options.rounds,
    machine: machineFacts(stage.directory),
    stores: storeVersions(stage.postgresVersion),
    settings: { postgres: POSTGRES_SETTINGS, redis: REDIS_SETTINGS },
    systems: present.map((system) => ({ ...describe(system), version: versionOf(system) })),
    absent,
    scenarios: [],
  }
  for (const scenario of options.scenarios) {
    const outcome = await runScenario(stage, scenario, present)
    if (outcome !== undefined) results.scenarios.push(outcome)
  }
  mkdirSync(RESULTS, { recursive: true })
  const file = `${RESULTS}${results.startedAt.replaceAll(/[:.]/g, '-')}-${options.mode}.json`
  writeFileSync(file, `${JSON.stringify(results, undefined, 2)}\n`)
  printTables(results)
  say(`Results: ${file}`)
  if (options.complete) say(writeReport(results))
}

function describe({ name, title, store, keeps, settings, redis, workflows }) {
  const described = { name, title, store, keeps, settings, redis }
  if (workflows === undefined) return described
  const { keeps: keepsOfRun, durable, settings: settingsOfRuns } = workflows
  return { ...described, workflows: { keeps: keepsOfRun, durable, settings: settingsOfRuns } }
}

/** All rounds of one scenario: in each, every system once, starting with another one each time. */
async function runScenario(stage, scenario, present) {
  const suited = present.filter(
    (system) =>
      (system.scenarios?.includes(scenario.name) ?? true) && (scenario.suits?.(system) ?? true),
  )
  if (suited.length === 0) return undefined
  const size = scenario.sizes[options.mode]
  const figures = Object.fromEntries(suited.map(({ name }) => [name, []]))
  const errors = {}
  for (let round = 0; round < options.rounds; round++) {
    for (let turn = 0; turn < suited.length; turn++) {
      const system = suited[(turn + round) % suited.length]
      try {
        const figure = await scenario.round(stage, system, size)
        figures[system.name][round] = figure
        const value = `${figure.value.toFixed(figure.value < 100 ? 2 : 0)} ${scenario.unit}`
        say(`${scenario.name} ${round + 1}/${options.rounds} ${system.name}: ${value}`)
      } catch (error) {
        errors[system.name] = error.message
        say(`${scenario.name} ${round + 1}/${options.rounds} ${system.name} failed: ${error.stack}`)
      }
    }
  }
  const { name, title, about, unit, higher } = scenario
  return { name, title, about, unit, higher, size, figures, errors }
}
