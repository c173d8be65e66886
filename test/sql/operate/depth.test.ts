import { describe, expect, it } from 'vitest'
import {
  bury,
  claim,
  claimOne,
  complete,
  enqueue,
  enqueueBatch,
  fail,
  freshType,
  maintain,
  violations,
} from '../../support/engine.ts'
import { ownDatabase } from '../../support/server.ts'
import { Session } from '../../support/sessions.ts'
import { one } from '../../support/sql.ts'

const database = ownDatabase()
const db = () => database.db

const depthSql = `select d.ready, d.delayed, d.running, d.waiting, d.dead_letter, d.enqueued
  from fencepost_private.job_type t cross join lateral fencepost_private.depth(t.type_id) d where t.type = $1`
const depth = async (type: string) => (await db().query(depthSql, [type]))[0]
const deltas = (type: string) =>
  one<number>(
    db(),
    'select count(*) from fencepost_private.depth_delta join fencepost_private.job_type using (type_id) where type = $1',
    [type],
  )
const counted = (name: 'running' | 'pending', type: string) =>
  one<number>(
    db(),
    `select fencepost_private.${name}(type_id) from fencepost_private.job_type where type = $1`,
    [type],
  )

describe('depth', () => {
  it('follows every move, folded or not', async () => {
    const type = freshType()
    const seen = async (wanted: object) => {
      expect(await depth(type)).toMatchObject(wanted)
      await maintain(db())
      expect(await depth(type)).toMatchObject(wanted)
      expect(await deltas(type)).toBe(0)
    }
    await enqueueBatch(db(), type, 5)
    await enqueue(db(), type, { delay: '1 hour' })
    await seen({ ready: 5, delayed: 1, running: 0, enqueued: 6 })
    const [first, second, third, fourth] = await claim(db(), type, 4)
    if (!first || !second || !third || !fourth) throw new Error('four jobs were there')
    await seen({ ready: 1, delayed: 1, running: 4, enqueued: 6 })
    await complete(db(), first)
    await fail(db(), second)
    await bury(db(), third)
    await db().query('select fencepost.suspend($1, $2)', [fourth.job_id, fourth.token])
    await seen({ ready: 1, delayed: 2, running: 0, waiting: 1, dead_letter: 1, enqueued: 6 })
    await db().query('select fencepost.replay($1)', [third.job_id])
    await db().query('select fencepost.resume($1)', [fourth.job_id])
    await db().query('select fencepost.cancel($1)', [second.job_id])
    await seen({ ready: 3, delayed: 1, running: 0, waiting: 0, dead_letter: 0, enqueued: 6 })
    expect(await counted('pending', type)).toBe(4)
    await claimOne(db(), type)
    expect(await counted('running', type)).toBe(1)
    expect(await violations(db())).toEqual([])
  })

  it('counts own changes before they are committed', async () => {
    const type = freshType()
    await enqueue(db(), type)
    await maintain(db())
    await db().transaction(async (tx) => {
      await tx.query(`select fencepost.enqueue_batch($1, array_fill('{}'::jsonb, array[3]))`, [
        type,
      ])
      expect((await tx.query(depthSql, [type]))[0]).toMatchObject({ ready: 4, enqueued: 4 })
      expect(
        await one(
          tx,
          'select fencepost_private.pending(type_id) from fencepost_private.job_type where type = $1',
          [type],
        ),
      ).toBe(4)
    })
  })

  it('misses no transaction that was in flight while others were folded, nor counts it twice', async () => {
    const type = freshType()
    await enqueue(db(), type)
    await maintain(db())
    await using late = await Session.open(database.url)
    await late.begin()
    await late.query('select fencepost.enqueue($1)', [type])
    for (let n = 0; n < 3; n++) {
      await enqueue(db(), type)
      await maintain(db())
    }
    expect(await depth(type)).toMatchObject({ ready: 4 })
    await late.commit()
    expect(await depth(type)).toMatchObject({ ready: 5, enqueued: 5 })
    expect(await deltas(type)).toBe(1)
    await maintain(db())
    expect(await deltas(type)).toBe(0)
    expect(await depth(type)).toMatchObject({ ready: 5, enqueued: 5 })
  })

  it('stays the same in a snapshot while others fold', async () => {
    const type = freshType()
    await enqueueBatch(db(), type, 2)
    await using reader = await Session.open(database.url)
    await reader.begin('repeatable read')
    const before = await reader.query(depthSql, [type])
    await enqueueBatch(db(), type, 5)
    await maintain(db())
    expect(await reader.query(depthSql, [type])).toEqual(before)
    await reader.rollback()
    expect(await depth(type)).toMatchObject({ ready: 7 })
  })

  it('leaves the changes of its own transaction for the next pass', async () => {
    const type = freshType()
    await db().transaction(async (tx) => {
      await tx.query('select fencepost.enqueue($1)', [type])
      await tx.query('select * from fencepost.maintain()')
      await tx.query('select fencepost.enqueue($1)', [type])
    })
    expect(await depth(type)).toMatchObject({ ready: 2, enqueued: 2 })
    await maintain(db())
    expect(await depth(type)).toMatchObject({ ready: 2, enqueued: 2 })
    expect(await deltas(type)).toBe(0)
  })

  it('folds in bounded passes, also a transaction that alone is larger', async () => {
    const type = freshType()
    await db().transaction(async (tx) => {
      for (let n = 0; n < 5; n++) await tx.query('select fencepost.enqueue($1)', [type])
    })
    await enqueue(db(), type)
    const fold = () => one<number>(db(), 'select fencepost_private.fold_depth(2)')
    expect(await fold()).toBe(5)
    expect(await depth(type)).toMatchObject({ ready: 6, enqueued: 6 })
    expect(await fold()).toBe(1)
    expect(await fold()).toBe(0)
    expect(await depth(type)).toMatchObject({ ready: 6, enqueued: 6 })
  })

  it('writes nothing when nothing has changed', async () => {
    await maintain(db())
    await maintain(db())
    await db().transaction(async (tx) => {
      await tx.query('select fencepost_private.fold_depth(), fencepost_private.fold_outcomes()')
      expect(await one(tx, 'select pg_current_xact_id_if_assigned()::text')).toBeNull()
    })
  })
})
