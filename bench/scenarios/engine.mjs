import { now } from '../lib/clock.mjs'
import { payloads } from '../lib/payload.mjs'
import { connect } from '../lib/postgres.mjs'
import { engineSide } from './engine/functions.mjs'
import { plainSide } from './engine/plain.mjs'

/** The engine's functions beside plain statements that write the same rows. */
export const engine = {
  name: 'engine',
  title: 'The engine alone',
  about:
    'One connection calls the SQL functions, without a worker around them: enqueue_batch, then exchange, which completes a batch and claims the next. Beside it, plain statements that write the same rows to copies of the same tables, by ids known beforehand: no order, no limits, no keys, no fencing, no watermark. The ratio is what the engine’s work costs.',
  unit: 'engine ÷ the same rows',
  higher: true,
  sizes: {
    quick: { jobs: 10_000, batches: [100, 1000] },
    full: { jobs: 100_000, batches: [10, 100, 1000] },
  },
  suits: (system) => system.name === 'engine',

  async round(stage, system, { jobs, batches }) {
    return await stage.with(system, async ({ place, settle, costs }) => {
      const client = await connect(place.url)
      const sides = { engine: await engineSide(client), plain: await plainSide(client) }
      const cases = []
      for (const batch of batches) {
        // Small batches pay a commit each: fewer jobs tell as much.
        const count = Math.min(jobs, batch * 500)
        const rates = {}
        for (const [name, side] of Object.entries(sides)) {
          const enqueue = await enqueueAll(side, count, batch)
          await settle()
          const before = await costs()
          const drain = await drainAll(side, count, batch)
          const cpuMs = (await costs()).cpuMs - before.cpuMs
          rates[name] = { enqueue, drain, cpuPerJob: (cpuMs / count) * 1000 }
        }
        cases.push({ batch, ...rates })
      }
      await client.end()
      const last = cases.at(-1)
      return { value: last.engine.drain / last.plain.drain, cases }
    })
  },
}

async function enqueueAll(side, count, batch) {
  const prepared = []
  for (let n = 0; n < count; n += batch)
    prepared.push(payloads(n, batch).map((each) => JSON.stringify(each)))
  const startedAt = now()
  for (const each of prepared) await side.enqueue(each)
  return (count / (now() - startedAt)) * 1000
}

async function drainAll(side, count, batch) {
  let done = 0
  const startedAt = now()
  let held = await side.exchange([], batch)
  while (held.length > 0) {
    done += held.length
    held = await side.exchange(held, batch)
  }
  if (done !== count) throw new Error(`drained ${done} of ${count} jobs`)
  return (count / (now() - startedAt)) * 1000
}
