import { randomBytes, randomInt } from 'node:crypto'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { freezeClock } from '../support/clock.ts'
import { settings } from '../support/engine.ts'
import { sabotage } from '../support/sabotage.ts'
import { type TestDatabase, testDatabase } from '../support/server.ts'
import { commands } from './commands.ts'
import { Model } from './model.ts'
import type { Real } from './step.ts'

// Random commands against the database and a small model of what the documentation promises. After each, all jobs
// stand in the same places and check_invariants() finds nothing. The seed is printed; FENCEPOST_SEED sets it,
// FENCEPOST_MODEL_SECONDS (default 15) is how long it goes on.

const SECONDS = Number(process.env.FENCEPOST_MODEL_SECONDS ?? 15)
const seed = Number(process.env.FENCEPOST_SEED ?? randomInt(2 ** 31))

let database: TestDatabase
beforeEach(async () => {
  database = await testDatabase()
  await freezeClock(database.db, new Date('2030-01-01T00:00:00Z'))
})
afterEach(() => database.drop())

/** Each run is a list of commands, on a model and types of its own. */
const property = fc.asyncProperty(
  fc.commands(commands, { maxCommands: 60, size: 'max' }),
  async (steps) => {
    const real: Real = { db: database.db, run: randomBytes(4).toString('hex') }
    for (const type of ['a', 'b']) {
      const foreseeable = { backoff_base: '10 s', backoff_cap: '60 s', backoff_jitter: 0 }
      await settings(real.db, `${real.run}.${type}`, foreseeable)
    }
    await fc.asyncModelRun(() => ({ model: new Model(), real }), steps)
    await clear(real)
  },
)

it('the engine does what its model does', { timeout: SECONDS * 1000 + 120_000 }, async () => {
  console.log(`seed ${seed} (FENCEPOST_SEED)`)
  await fc.assert(property, {
    seed,
    numRuns: 100_000,
    interruptAfterTimeLimit: SECONDS * 1000,
    markInterruptAsFailure: false,
  })
})

describe('the model notices an engine', () => {
  it.each([
    [
      'that allows an attempt too many',
      'fail_jobs(bigint[], int[], text[], jsonb[], interval[], boolean[], int, fencepost_private.attempt_outcome, timestamptz)',
      'e.attempts >= coalesce',
      'e.attempts > coalesce',
    ],
    [
      'that takes any token',
      'complete_jobs(bigint[], int[], jsonb[], int, timestamptz)',
      'l.token = given.token',
      'true',
    ],
    [
      'that loses a worker at the first look',
      'mark_lost(timestamptz)',
      's.suspect_at <= p_now - s.ttl / 2',
      's.suspect_at <= p_now',
    ],
  ])('%s', async (_, signature, text, replacement) => {
    await sabotage(database.db, signature, text, replacement)
    const found = await fc.check(property, {
      seed,
      numRuns: 1000,
      endOnFailure: true,
      interruptAfterTimeLimit: 60_000,
    })
    expect(found.failed && !found.interrupted).toBe(true)
  })
})

/** Ends what a run has left alive, so that it does not disturb the next. */
async function clear({ db, run }: Real): Promise<void> {
  const text = `select j.id from fencepost.jobs j where j.type like $1 and j.status = any ($2)`
  const ids = async (...statuses: string[]) =>
    (await db.query<{ id: number }>(text, [`${run}.%`, statuses])).map((row) => row.id)
  await db.query(
    `select fencepost.complete(l.id, l.token) from fencepost_private.lease l where l.id = any ($1)`,
    [await ids('running')],
  )
  await db.query('select fencepost_private.cancel_jobs($1, null, fencepost_private.now())', [
    await ids('pending', 'waiting'),
  ])
  await db.query(`select fencepost_private.discard_jobs($1, null)`, [await ids('dead_letter')])
}
