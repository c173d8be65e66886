import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { moveClock, restoreClock } from '../../support/clock.ts'
import {
  claim,
  enqueue,
  enqueueBatch,
  freshType,
  maintain,
  settings,
  started,
} from '../../support/engine.ts'
import { ownDatabase } from '../../support/server.ts'
import { Session } from '../../support/sessions.ts'
import { one } from '../../support/sql.ts'

const database = ownDatabase()
const db = () => database.db
let sleeper: Session
let heard: string[]
beforeAll(async () => {
  sleeper = await Session.open(database.url)
  heard = await sleeper.listen('fencepost')
})
afterAll(async () => {
  await sleeper[Symbol.asyncDispose]()
})
afterEach(async () => {
  await sleeper.query('select pg_advisory_unlock_all()')
  heard.length = 0
  await restoreClock(db())
})

/** A type that exists, and its wake group. */
async function typeWithGroup(): Promise<{ type: string; group: number }> {
  const type = freshType()
  await enqueue(db(), type)
  await claim(db(), type)
  const [group] = await one<number[]>(db(), 'select fencepost.wake_groups($1)', [[type]])
  return { type, group: group as number }
}
const sleep = (groups: number[]) => sleeper.query('select fencepost.sleep_lock($1)', [groups])
/** What arrived since the last call. */
async function notifications(): Promise<unknown[]> {
  await sleeper.query('select 1')
  return heard.splice(0).map((text) => JSON.parse(text))
}

describe('wake groups', () => {
  it('are few, and none for types that do not exist', async () => {
    const { type, group } = await typeWithGroup()
    expect(group).toBeGreaterThanOrEqual(0)
    expect(group).toBeLessThan(16)
    expect(await one(db(), 'select fencepost.wake_groups($1)', [[freshType()]])).toEqual([])
    expect(await one(db(), 'select fencepost.wake_groups($1)', [[type, type]])).toEqual([group])
    expect(await one(db(), 'select fencepost.wake_groups($1)', [[]])).toEqual([])
  })
})

describe('a sleeping worker', () => {
  it('is notified once of each transaction that makes work, and not when it is awake', async () => {
    const { type, group } = await typeWithGroup()
    await enqueue(db(), type)
    expect(await notifications()).toEqual([])
    await sleep([group])
    await enqueue(db(), type)
    await enqueueBatch(db(), type, 100)
    expect(await notifications()).toEqual([{ wake: [group] }, { wake: [group] }])
    await sleeper.query('select fencepost.sleep_unlock($1)', [[group]])
    await enqueue(db(), type)
    expect(await notifications()).toEqual([])
  })

  it('sleeps for all of its groups, and for no other', async () => {
    const made = []
    for (let n = 0; n < 3; n++) made.push(await typeWithGroup())
    const [a, b, c] = made as [(typeof made)[0], (typeof made)[0], (typeof made)[0]]
    expect(new Set([a.group, b.group, c.group]).size).toBe(3)
    await sleep([a.group, b.group])
    for (const { type } of [a, b, c]) await enqueue(db(), type)
    expect(await notifications()).toEqual([{ wake: [a.group] }, { wake: [b.group] }])
  })

  it('is heard by two: neither hides the other', async () => {
    const { type, group } = await typeWithGroup()
    await using second = await Session.open(database.url)
    await sleep([group])
    await second.query('select fencepost.sleep_lock($1)', [[group]])
    await second.query('select fencepost.sleep_unlock($1)', [[group]])
    await enqueue(db(), type)
    expect(await notifications()).toEqual([{ wake: [group] }])
  })

  it('hears only of what was committed', async () => {
    const { type, group } = await typeWithGroup()
    await sleep([group])
    await using session = await Session.open(database.url)
    await session.begin()
    await session.query('select fencepost.enqueue($1)', [type])
    expect(await notifications()).toEqual([])
    await session.rollback()
    expect(await notifications()).toEqual([])
    await session.begin()
    await session.query('select fencepost.enqueue($1)', [type])
    await session.commit()
    expect(await notifications()).toEqual([{ wake: [group] }])
  })

  it('is woken by every way into a lane: retry, release, replay, resume, priority, promotion, reclaim', async () => {
    const { type, group } = await typeWithGroup()
    await sleep([group])
    const wakes = async (word: string, act: () => Promise<unknown>) => {
      await notifications()
      await act()
      expect(await notifications(), word).toContainEqual({ wake: [group] })
    }
    const retried = await started(db(), type)
    await wakes('retry', () =>
      db().query(`select fencepost.fail($1, $2, retry_in => '0')`, [retried.job_id, retried.token]),
    )
    const [again] = await claim(db(), type)
    await wakes('delayed retry', () =>
      db().query(`select fencepost.fail($1, $2, retry_in => '1 hour')`, [
        again?.job_id,
        again?.token,
      ]),
    )
    const released = await started(db(), type)
    await wakes('release', () =>
      db().query('select fencepost.release($1, $2)', [released.job_id, released.token]),
    )
    const [dead] = await claim(db(), type)
    await db().query('select fencepost.fail($1, $2, permanent => true)', [
      dead?.job_id,
      dead?.token,
    ])
    await wakes('replay', () => db().query('select fencepost.replay($1)', [dead?.job_id]))
    const [waiting] = await claim(db(), type)
    await db().query('select fencepost.suspend($1, $2)', [waiting?.job_id, waiting?.token])
    await wakes('resume', () => db().query('select fencepost.resume($1)', [waiting?.job_id]))
    await wakes('priority', () =>
      db().query('select fencepost.reprioritize($1, 9)', [waiting?.job_id]),
    )
    await wakes('delay', () => enqueue(db(), type, { delay: '10 s' }))
    await moveClock(db(), '1 minute')
    await wakes('promotion', () => maintain(db()))
    await claim(db(), type, 10, 'mortal')
    await db().query(`select fencepost.register_worker('mortal')`)
    await wakes('reclaim', () => maintain(db()))
  })

  it('for a limited type is woken by every end that frees a slot', async () => {
    const { type, group } = await typeWithGroup()
    await enqueueBatch(db(), type, 5)
    const jobs = await claim(db(), type, 5)
    await sleep([group])
    await db().query('select fencepost.complete($1, $2)', [jobs[0]?.job_id, jobs[0]?.token])
    expect(await notifications()).toEqual([])
    await settings(db(), type, { max_running: 4 })
    await db().query('select fencepost.complete($1, $2)', [jobs[1]?.job_id, jobs[1]?.token])
    expect(await notifications()).toEqual([{ wake: [group] }])
    await db().query('select fencepost.fail($1, $2, permanent => true)', [
      jobs[2]?.job_id,
      jobs[2]?.token,
    ])
    expect(await notifications()).toContainEqual({ wake: [group] })
    await db().query('select fencepost.suspend($1, $2)', [jobs[3]?.job_id, jobs[3]?.token])
    expect(await notifications()).toEqual([{ wake: [group] }])
  })

  it('is left alone by transactions that must not notify', async () => {
    const { type, group } = await typeWithGroup()
    await sleep([group])
    await using session = await Session.open(database.url)
    await session.query(`set fencepost.wake = 'off'`)
    await session.query('select fencepost.enqueue($1)', [type])
    expect(await notifications()).toEqual([])
  })
})

describe('the horizon of a sleeper', () => {
  const horizon = async () =>
    (
      await db().query<{ horizon: number; pending: number }>(
        'select * from fencepost.sleep_horizon()',
      )
    )[0]
  const pending = (at: number) => one<number>(db(), 'select fencepost.sleep_pending($1)', [at])

  it('counts every transaction that began to write before it, and none that came later', async () => {
    await using early = await Session.open(database.url)
    await using late = await Session.open(database.url)
    await early.begin()
    await early.query('select pg_current_xact_id()')
    const mark = await horizon()
    expect(mark?.pending).toBe(1)
    await late.begin()
    await late.query('select pg_current_xact_id()')
    expect(await pending(mark?.horizon ?? 0)).toBe(1)
    await early.rollback()
    expect(await pending(mark?.horizon ?? 0)).toBe(0)
    await late.rollback()
  })

  it('reaches beyond a snapshot: it counts the youngest transaction, which no snapshot lists', async () => {
    // the snapshot's xmax is only the last completed transaction + 1, so this one is at or above it
    await using writer = await Session.open(database.url)
    await writer.begin()
    const [row] = await writer.query<{ xid: number }>(
      'select pg_current_xact_id()::text::bigint as xid',
    )
    const xmax = await one<number>(
      db(),
      'select pg_snapshot_xmax(pg_current_snapshot())::text::bigint',
    )
    expect(xmax).toBeLessThanOrEqual(row?.xid ?? 0)
    const mark = await horizon()
    expect(mark?.horizon).toBeGreaterThan(row?.xid ?? 0)
    expect(mark?.pending).toBeGreaterThanOrEqual(1)
    await writer.rollback()
  })
})
