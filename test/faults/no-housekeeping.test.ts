import { describe, expect, it } from 'vitest'
import { moveClock } from '../support/clock.ts'
import { claim, complete, enqueue, enqueueBatch, freshType, started } from '../support/engine.ts'
import { ownDatabase } from '../support/server.ts'
import { column, one } from '../support/sql.ts'

const database = ownDatabase()

/** How far the ids come between two looks, of which a day has four: 12 million jobs, all in all. */
const JOB_IDS = 100_000
const EVENT_IDS = 3 * JOB_IDS
/** How many of those jobs are really there. */
const BATCH = 10

describe('a database whose maintain() has not run for 30 days', () => {
  const type = freshType()

  it('still takes and gives out work, however far the ids have come', async () => {
    const { db } = database
    await enqueue(db, type, { delay: '10 days' })
    const held = await started(db, type)
    for (let day = 1; day <= 30; day++) {
      await moveClock(db, '1 day')
      for (let look = 1; look <= 4; look++) {
        await advance('job_id_seq', JOB_IDS - BATCH)
        await advance('event_id_seq', EVENT_IDS)
        await enqueueBatch(db, type, BATCH)
        for (const job of await claim(db, type, BATCH)) await complete(db, job)
      }
    }
    // What became due is given out by claims; the attempt whose worker never spoke again is still its own.
    const rest = await claim(db, type, 100)
    for (const job of rest) await complete(db, job)
    await complete(db, held)
    const open = await column(
      db,
      "select id from fencepost.jobs where type = $1 and status <> 'completed'",
      [type],
    )
    expect(open).toEqual([])
  })

  it('has room for what claims and ends write, also when nothing is enqueued', async () => {
    const { db } = database
    const busy = freshType()
    await enqueueBatch(db, busy, 60)
    // A claim looks ahead each sixteenth time that it refreshes its lane's watermark, five times a second at most.
    for (let round = 0; round < 60; round++) {
      await moveClock(db, '1 second')
      await advance('event_id_seq', 100_000)
      for (const job of await claim(db, busy, 1)) await complete(db, job)
    }
  })

  it('is tidied up by the next calls, without an error, and nothing is missing', async () => {
    const { db } = database
    const partitions = () =>
      one<number>(db, "select count(*) from fencepost_private.partitions('job')")
    const before = await partitions()
    await housekeeping(200)
    // What nobody saw ending counts as ended when it is first seen so.
    await moveClock(db, '8 days')
    await housekeeping(200)
    expect(await partitions()).toBeLessThan(before)
    expect(await db.query('select * from fencepost.check_invariants()')).toEqual([])
    const next = await started(db, type)
    await complete(db, next)
  })
})

/** Calls maintain(), 20 s apart by the engine's clock. */
async function housekeeping(passes: number): Promise<void> {
  const { db } = database
  for (let pass = 0; pass < passes; pass++) {
    const errors = await column(
      db,
      "select step || ': ' || error from fencepost.maintain() where error is not null",
    )
    expect(errors).toEqual([])
    await moveClock(db, '20 s')
  }
}

/** Uses up numbers of a sequence, as if that much work had come and gone. */
async function advance(sequence: string, by: number): Promise<void> {
  await database.db.query(
    `select setval('fencepost_private.${sequence}', last_value + $1::bigint) from fencepost_private.${sequence}`,
    [by],
  )
}
