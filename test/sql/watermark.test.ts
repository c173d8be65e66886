import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { moveClock } from '../support/clock.ts'
import { claim, enqueue, enqueueBatch, violations } from '../support/engine.ts'
import { Lane } from '../support/lane.ts'
import { sabotage } from '../support/sabotage.ts'
import { one } from '../support/sql.ts'

// A claim starts at its lane's watermark and never looks below, but for what the watermark lists. Each test makes a
// row appear below it in another way, and claims it; the controls take one clause out of refresh_hint and lose it.

const REFRESH = 'refresh_hint(int, fencepost_private.lane_hint, timestamptz)'

let lane: Lane
const db = () => lane.db
beforeEach(async () => {
  lane = await Lane.make()
})
afterEach(() => lane[Symbol.asyncDispose]())

/** Runs a story on a sound engine, and on one that lacks a clause: only the sound one finds the job. */
function needed(name: string, clause: string, replacement: string, story: () => Promise<number>) {
  describe(name, () => {
    it('is found', async () => {
      const id = await story()
      expect(await lane.left()).toContain(id)
      expect(await violations(db())).toEqual([])
    })
    it('is lost without the clause, and the engine notices', async () => {
      await sabotage(db(), REFRESH, clause, replacement)
      const id = await story()
      expect(await lane.left()).not.toContain(id)
      expect(
        await one(db(), 'select count(*) from fencepost_private.ready where id = $1', [id]),
      ).toBe(1)
      expect((await violations(db())).length).toBeGreaterThan(0)
    })
  })
}

const NO_FLIGHT: [string, string] = [
  'cross join lateral pg_snapshot_xip(m.snap) as x',
  'cross join lateral pg_snapshot_xip(m.snap) as x where false',
]

needed('a job whose transaction commits late', ...NO_FLIGHT, async () => {
  const late = await lane.open()
  await late.begin()
  const id = await lane.enqueueIn(late)
  await lane.pass()
  await late.commit()
  return id
})

needed(
  'a job of a late transaction in repeatable read, with an old snapshot',
  ...NO_FLIGHT,
  async () => {
    const late = await lane.open()
    await late.begin('repeatable read')
    await late.query('select count(*) from fencepost_private.ready')
    const id = await lane.enqueueIn(late)
    await lane.pass()
    await late.commit()
    return id
  },
)

needed('a job of a savepoint in a late transaction', ...NO_FLIGHT, async () => {
  const late = await lane.open()
  await late.begin()
  await late.query('savepoint a')
  await lane.enqueueIn(late)
  await late.query('rollback to a')
  await late.query('savepoint b')
  const id = await lane.enqueueIn(late)
  await late.query('release b')
  await lane.pass()
  await late.commit()
  return id
})

needed('a job of a prepared transaction', ...NO_FLIGHT, async () => {
  const late = await lane.open()
  await late.query(`set fencepost.wake = 'off'`)
  await late.begin()
  const id = await lane.enqueueIn(late)
  await late.query(`prepare transaction 'late-${lane.database.name}'`)
  await lane.pass()
  await late.query(`commit prepared 'late-${lane.database.name}'`)
  return id
})

needed(
  'the last job of a transaction that committed late, when its first ones were claimed',
  'and r.xid = l.x and r.id >= l.first_id order by r.id limit 1',
  'and false limit 1',
  async () => {
    const late = await lane.open()
    await late.begin()
    const ids: number[] = []
    for (let n = 0; n < 5; n++) ids.push(await lane.enqueueIn(late))
    await lane.pass()
    await late.commit()
    for (let n = 0; n < 4; n++) {
      await moveClock(db(), '1 s')
      await claim(db(), lane.type, 1)
    }
    return ids[4] as number
  },
)

needed(
  'a job that a transaction enqueues after it has claimed',
  'select m.own, 0 from mark m where m.own > 0',
  'select m.own, 0 from mark m where false',
  async () => {
    const own = await lane.open()
    await own.begin()
    await lane.enqueueIn(own)
    await enqueueBatch(db(), lane.type, 2)
    await moveClock(db(), '1 s')
    expect(await lane.claimIn(own)).toHaveLength(3)
    const id = await lane.enqueueIn(own)
    await own.commit()
    return id
  },
)

needed(
  'a job that a transaction moves in below its own others',
  'and f.xid <> s.own then f.id',
  'then f.id',
  async () => {
    const old = await enqueue(db(), lane.type, { priority: 1 })
    const own = await lane.open()
    await own.begin()
    await lane.enqueueIn(own)
    await lane.enqueueIn(own)
    await enqueue(db(), lane.type, { priority: 2 }) // ends after ours began, so that ours is in no way the youngest
    await moveClock(db(), '1 s')
    await lane.claimIn(own, 1)
    await own.query('select fencepost.reprioritize($1, 5)', [old])
    await own.commit()
    return old
  },
)

needed(
  'a job that a claim held open, and then gave back',
  'array(select s.id from still_held s union select h.id from head h where (h.xid, h.id) < (m.wx, m.wi))',
  `'{}'`,
  async () => {
    const id = await enqueue(db(), lane.type)
    const holder = await lane.open()
    await holder.begin()
    await lane.claimIn(holder, 1)
    await enqueueBatch(db(), lane.type, 20)
    for (let n = 0; n < 4; n++) {
      await moveClock(db(), '1 s')
      await claim(db(), lane.type, 2)
    }
    await holder.rollback()
    return id
  },
)

needed(
  'a job of a savepoint that claimed and rolled back',
  'array(select s.id from still_held s union select h.id from head h where (h.xid, h.id) < (m.wx, m.wi))',
  `'{}'`,
  async () => {
    const id = await enqueue(db(), lane.type)
    const holder = await lane.open()
    await holder.begin()
    await holder.query('savepoint a')
    await lane.claimIn(holder, 1)
    await enqueueBatch(db(), lane.type, 20)
    for (let n = 0; n < 4; n++) {
      await moveClock(db(), '1 s')
      await claim(db(), lane.type, 2)
    }
    await holder.query('rollback to a')
    await holder.commit()
    return id
  },
)
