import { drain } from '../scenarios/drain.mjs'
import { wakeUp } from '../scenarios/wake-up.mjs'
import { workflowFan } from '../scenarios/workflow-fan.mjs'
import { workflowLinear } from '../scenarios/workflow-linear.mjs'
import { systemNamed } from '../systems/index.mjs'
import { summary } from './stats.mjs'

const PARTS = [
  { scenario: drain, candidates: (system) => system.candidates?.throughput },
  { scenario: wakeUp, candidates: (system) => system.candidates?.latency },
  { scenario: workflowLinear, candidates: (system) => system.workflows?.candidates.linear },
  { scenario: workflowFan, candidates: (system) => system.workflows?.candidates.fan },
]

/** What each of a system's candidate settings is worth on this machine, best first. */
export async function tune(stage, { tune: name, mode, rounds, scenarios }, say) {
  const system = systemNamed(name)
  await system.load()
  for (const { scenario, candidates: candidatesOf } of PARTS) {
    const candidates = candidatesOf(system)
    if (!scenarios.includes(scenario) || candidates === undefined) continue
    const values = candidates.map(() => [])
    for (let round = 0; round < rounds; round++) {
      for (const [index, settings] of candidates.entries()) {
        try {
          const figure = await scenario.round(stage, system, scenario.sizes[mode], settings)
          values[index].push(figure.value)
        } catch (error) {
          say(`${JSON.stringify(settings)} failed: ${error.message}`)
        }
      }
    }
    const ranked = candidates
      .map((settings, index) => ({ settings, ...summary(values[index]) }))
      .filter(({ median }) => median !== undefined)
      .sort((a, b) => (scenario.higher ? b.median - a.median : a.median - b.median))
    say(`\n${system.title}, ${scenario.title}, ${scenario.unit}`)
    for (const { settings, median, min, max } of ranked) {
      const [m, low, high] = [median, min, max].map((n) => n.toFixed(n < 100 ? 2 : 0))
      say(`  ${m} (${low}…${high})  ${JSON.stringify(settings)}`)
    }
  }
}
