import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { moveClock } from '../support/clock.ts'
import { claim, complete, enqueue, enqueueBatch, freshType, violations } from '../support/engine.ts'
import { type TestDatabase, testDatabase } from '../support/server.ts'
import { Session } from '../support/sessions.ts'
import { column, one, refused } from '../support/sql.ts'

let database: TestDatabase
const db = () => database.db
beforeEach(async () => {
  database = await testDatabase()
})
afterEach(async () => {
  expect(await violations(db())).toEqual([])
  await database.drop()
})

const partitions = (parent: string) =>
  column<string>(db(), 'select name from fencepost_private.partitions($1) order by first_id', [
    parent,
  ])
const skipTo = (id: number) => db().query(`select setval('fencepost_private.job_id_seq', $1)`, [id])

describe('a partition that is made', () => {
  it('locks out neither readers nor enqueuers, whoever is in the middle of something', async () => {
    const type = freshType()
    await enqueue(db(), type)
    await using reader = await Session.open(database.url)
    await using writer = await Session.open(database.url)
    await reader.begin('repeatable read')
    await reader.query('select count(*) from fencepost_private.job, fencepost_private.event')
    await writer.begin()
    await writer.query('select fencepost.enqueue($1)', [type])
    const before = await partitions('job')
    await skipTo(2_900_000)
    await using maker = await Session.open(database.url)
    await maker.begin()
    await maker.query('select fencepost_private.create_partitions()')
    // it is not committed yet: all others go on
    await enqueue(db(), type)
    await writer.query('select fencepost.enqueue($1)', [type])
    await reader.query('select count(*) from fencepost_private.job')
    expect(await claim(db(), type, 9)).toHaveLength(2)
    await maker.commit()
    expect((await partitions('job')).length).toBeGreaterThan(before.length)
    await writer.commit()
    await reader.commit()
    expect(await claim(db(), type, 9)).toHaveLength(2)
  })

  it('is made by one of two, and the other goes on without it', async () => {
    await skipTo(2_900_000)
    await using a = await Session.open(database.url)
    await a.begin()
    await a.query('select fencepost_private.create_partitions()')
    expect(await one(db(), 'select fencepost_private.create_partitions()')).toBe(0)
    await a.rollback()
    expect(await one<number>(db(), 'select fencepost_private.create_partitions()')).toBeGreaterThan(
      0,
    )
  })
})

describe('a partition that is dropped', () => {
  /** The first partition of job holds one job, ended long ago. */
  async function old(type: string): Promise<number> {
    const id = await enqueue(db(), type)
    const [job] = await claim(db(), type)
    await complete(db(), job as never)
    await skipTo(1_500_000)
    await enqueue(db(), type)
    await one(db(), 'select fencepost_private.drain_partitions()')
    await moveClock(db(), '30 days')
    return id
  }
  const DROP = 'select fencepost_private.drop_partition()'

  it('goes with all that is in it, and nothing else', async () => {
    const type = freshType()
    const id = await old(type)
    expect(await one(db(), DROP)).toBe(1)
    expect(await partitions('job')).not.toContain('job_0')
    expect(await column(db(), 'select id from fencepost_private.job where id = $1', [id])).toEqual(
      [],
    )
    expect(await claim(db(), type, 9)).toHaveLength(1)
  })

  it('waits 20 ms for a reader, gives up, and holds nobody up', async () => {
    const type = freshType()
    await old(type)
    await using reader = await Session.open(database.url)
    await reader.begin()
    await reader.query('select count(*) from fencepost_private.job')
    const begin = performance.now()
    await refused(db().query(DROP), '55P03')
    expect(performance.now() - begin).toBeLessThan(5000)
    await enqueueBatch(db(), type, 3)
    await reader.commit()
    expect(await one(db(), DROP)).toBe(1)
  })

  it('asks for no lock on the others: a vacuum of one of them does not stop it', async () => {
    const type = freshType()
    await old(type)
    await using vacuum = await Session.open(database.url)
    await vacuum.begin()
    await vacuum.query(
      'lock table only fencepost_private.job_1000000 in share update exclusive mode',
    )
    expect(await one(db(), DROP)).toBe(1)
    await vacuum.rollback()
  })

  it('stays when its drop rolls back', async () => {
    const type = freshType()
    const id = await old(type)
    await using session = await Session.open(database.url)
    await session.begin()
    await session.query(DROP)
    await session.rollback()
    expect(await column(db(), 'select id from fencepost_private.job where id = $1', [id])).toEqual([
      id,
    ])
  })

  it('is never one in which a job lives', async () => {
    const type = freshType()
    const id = await old(type)
    const dead = 2
    await db().query(
      `insert into fencepost_private.job (id, lane_id, payload, created_at)
       select $2, lane_id, '{}', created_at from fencepost_private.job where id = $1`,
      [id, dead],
    )
    await db().query(
      `insert into fencepost_private.ready (id, xid, lane_id, attempts, token, ready_at)
       select $2, pg_current_xact_id()::text::bigint, lane_id, 0, 0, created_at from fencepost_private.job where id = $1`,
      [id, dead],
    )
    expect(await one(db(), DROP)).toBe(0)
    expect(await partitions('job')).toContain('job_0')
    await db().query('delete from fencepost_private.ready where id = $1', [dead])
    await db().query('delete from fencepost_private.job where id = $1', [dead])
  })
})
