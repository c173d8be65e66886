import fc from 'fast-check'
import { afterEach, it } from 'vitest'
import { freezeClock, restoreClock } from '../support/clock.ts'
import { ownDatabase } from '../support/server.ts'
import { commands } from './commands.ts'

// Random commands, against the database and against the model: after each, both say the same of every task and run,
// and nothing that must always be true is broken.

const database = ownDatabase()
afterEach(() => restoreClock(database.db))

it('runs do what the model says', async () => {
  const property = fc.asyncProperty(
    fc.commands(commands, { maxCommands: 120, size: 'max' }),
    async (drawn) => {
      await freezeClock(database.db)
      const real = { db: database.db, runs: [] }
      await fc.asyncModelRun(() => ({ model: { now: 0, runs: [] }, real }), drawn)
    },
  )
  await fc.assert(property, {
    seed: Number(process.env.FENCEPOST_SEED ?? Date.now() % 1_000_000),
    numRuns: Number(process.env.FENCEPOST_RUNS ?? 25),
  })
}, 300_000)
