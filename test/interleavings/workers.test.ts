import { afterAll, describe, expect, it } from 'vitest'
import { moveClock, restoreClock } from '../support/clock.ts'
import {
  claim,
  enqueueBatch,
  freshType,
  maintain,
  outcomes,
  places,
  violations,
} from '../support/engine.ts'
import { ownDatabase } from '../support/server.ts'
import { Session } from '../support/sessions.ts'
import { column, one, refused } from '../support/sql.ts'

const database = ownDatabase()
const db = () => database.db
afterAll(async () => expect(await violations(db())).toEqual([]))

const register = (name: string) =>
  one<number>(db(), `select fencepost.register_worker($1, ttl => '10 s')`, [name])
const exchange = `select job_id from fencepost.exchange($1, types => array[$2::text], max => 2) where directive = 'run'`
const worker = async (id: number) =>
  (
    await db().query(
      'select status::text, swept from fencepost_private.worker where worker_id = $1',
      [id],
    )
  )[0]

/** Two looks at a silent worker. */
async function lose(): Promise<void> {
  for (let n = 0; n < 2; n++) {
    await moveClock(db(), '6 s')
    await maintain(db())
  }
}

describe('claim x mark_lost', () => {
  it('a claim that commits after its worker was declared lost is swept too, and only then is the worker closed', async () => {
    const type = freshType()
    const ids = await enqueueBatch(db(), type, 2)
    const id = await register('late')
    await using session = await Session.open(database.url)
    await session.begin()
    expect(await session.query(exchange, [id, type])).toHaveLength(2)
    await lose()
    expect(await worker(id)).toEqual({ status: 'lost', swept: false })
    await maintain(db())
    expect(await worker(id)).toEqual({ status: 'lost', swept: false })
    await session.commit()
    for (const job of ids) expect(await places(db(), job)).toEqual(['lease'])
    await maintain(db())
    for (const job of ids) expect(await outcomes(db(), job)).toEqual(['lease_expired'])
    await maintain(db())
    expect(await worker(id)).toEqual({ status: 'lost', swept: true })
    await refused(db().query(exchange, [id, type]), 'JE010')
    await restoreClock(db())
  })

  it('a claim while the final sweep is open is refused without waiting', async () => {
    const id = await register('swept')
    await register('swept')
    await using session = await Session.open(database.url)
    await session.begin()
    await session.query('select fencepost_private.reclaim()')
    await refused(db().query(exchange, [id, freshType()]), 'JE010')
    await session.rollback()
  })

  it('a heartbeat in flight is not overlooked: its worker is not suspected meanwhile', async () => {
    const id = await register('speaking')
    await moveClock(db(), '6 s')
    await using session = await Session.open(database.url)
    await session.begin()
    await session.query('select fencepost.heartbeat($1, worker_id => $2)', ['speaking', id])
    await maintain(db())
    await session.commit()
    expect(
      await one(db(), 'select suspect_at from fencepost_private.worker where worker_id = $1', [id]),
    ).toBeNull()
    await restoreClock(db())
  })

  it('a heartbeat that waits for the sentence learns that its worker is lost', async () => {
    const id = await register('judged')
    await moveClock(db(), '6 s')
    await maintain(db())
    await moveClock(db(), '6 s')
    await using judge = await Session.open(database.url)
    await using voice = await Session.open(database.url)
    await judge.begin()
    await judge.query('select fencepost_private.mark_lost()')
    const waiting = await voice.blocks('select fencepost.heartbeat($1, worker_id => $2)', [
      'judged',
      id,
    ])
    await judge.commit()
    await refused(waiting.answer, 'JE010')
    await restoreClock(db())
  })
})

describe('register x register', () => {
  it('the later of two replaces the earlier, whichever commits', async () => {
    for (const ends of ['commit', 'rollback'] as const) {
      const name = `double-${ends}`
      const present = await register(name)
      await using a = await Session.open(database.url)
      await using b = await Session.open(database.url)
      await a.begin()
      const [first] = await a.query<{ id: number }>('select fencepost.register_worker($1) as id', [
        name,
      ])
      const waiting = await b.blocks<{ id: number }>('select fencepost.register_worker($1) as id', [
        name,
      ])
      await a[ends]()
      const [second] = await waiting.answer
      const active = await column(
        db(),
        `select worker_id from fencepost_private.worker where name = $1 and status = 'active'`,
        [name],
      )
      expect(active).toEqual([second?.id])
      const lost = await column<number>(
        db(),
        `select worker_id from fencepost_private.event where kind = 'worker.lost' and data ->> 'worker' = $1 order by id`,
        [name],
      )
      expect(lost).toEqual(ends === 'commit' ? [present, first?.id] : [present])
    }
  })

  it('of a worker whose claim is open takes its jobs back once that commits', async () => {
    const type = freshType()
    const ids = await enqueueBatch(db(), type, 2)
    const id = await register('again')
    await using session = await Session.open(database.url)
    await session.begin()
    await session.query(exchange, [id, type])
    const successor = await register('again')
    await maintain(db())
    await session.commit()
    await maintain(db())
    expect(await claim(db(), type, 9, 'again')).toHaveLength(2)
    for (const job of ids) expect(await outcomes(db(), job)).toEqual(['lease_expired'])
    expect(await worker(successor)).toMatchObject({ status: 'active' })
  })
})

describe('maintain x maintain', () => {
  it('the second returns at once, with nothing', async () => {
    await using session = await Session.open(database.url)
    await session.begin()
    expect((await session.query('select * from fencepost.maintain()')).length).toBeGreaterThan(0)
    expect(await db().query('select * from fencepost.maintain()')).toEqual([])
    await session.rollback()
    expect((await db().query('select * from fencepost.maintain()')).length).toBeGreaterThan(0)
  })
})
