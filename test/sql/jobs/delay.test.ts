import { afterEach, describe, expect, it } from 'vitest'
import { freezeClock, moveClock, restoreClock } from '../../support/clock.ts'
import {
  claim,
  claimOne,
  enqueue,
  freshType,
  kinds,
  maintain,
  places,
} from '../../support/engine.ts'
import { ownDatabase } from '../../support/server.ts'
import { Session } from '../../support/sessions.ts'
import { column, one } from '../../support/sql.ts'

const database = ownDatabase()
const db = () => database.db
afterEach(() => restoreClock(db()))

const exchange = (worker: number, type: string) =>
  column<number>(
    db(),
    `select job_id from fencepost.exchange($1, types => $2, max => 10) where directive = 'run'`,
    [worker, [type]],
  )

describe('a delayed job', () => {
  it('waits for its time, and not longer', async () => {
    const type = freshType()
    const id = await enqueue(db(), type, { delay: '1 hour' })
    expect(await places(db(), id)).toEqual(['delayed'])
    await moveClock(db(), '59 minutes')
    expect(await claim(db(), type)).toEqual([])
    await moveClock(db(), '61 s')
    expect((await claimOne(db(), type)).job_id).toBe(id)
  })

  it('may be given a moment, in any time zone', async () => {
    const type = freshType()
    const id = await enqueue(db(), type, { run_at: '2000-01-01T00:00:00+14:00' })
    expect(await places(db(), id)).toEqual(['ready'])
    const later = await enqueue(db(), type, { run_at: '2990-01-01T00:00:00-12:00' })
    expect(await places(db(), later)).toEqual(['delayed'])
  })

  it('is moved by any claim within two seconds of its time, without housekeeping', async () => {
    const type = freshType()
    await freezeClock(db())
    const worker = await one<number>(db(), `select fencepost.register_worker('prompt')`)
    const id = await enqueue(db(), type, { delay: '10 s' })
    expect(await exchange(worker, type)).toEqual([])
    await moveClock(db(), '11 s')
    expect(await exchange(worker, type)).toEqual([id])
  })

  it('is moved by maintain() whenever it became due', async () => {
    const type = freshType()
    const worker = await one<number>(db(), `select fencepost.register_worker('late')`)
    const id = await enqueue(db(), type, { delay: '10 s' })
    await moveClock(db(), '20 s')
    expect(await exchange(worker, type)).toEqual([])
    await maintain(db())
    expect(await exchange(worker, type)).toEqual([id])
  })

  it('is moved by maintain() within a minute also when it was committed long after its time', async () => {
    const type = freshType()
    await maintain(db())
    await using session = await Session.open(database.url)
    await session.begin()
    await session.query(`select fencepost.enqueue($1, delay => '1 s')`, [type])
    for (let n = 0; n < 20; n++) {
      await moveClock(db(), '50 s')
      await maintain(db())
    }
    await session.commit()
    await moveClock(db(), '70 s')
    await maintain(db())
    const worker = await one<number>(db(), `select fencepost.register_worker('later')`)
    expect(await exchange(worker, type)).toHaveLength(1)
  })

  it('of tens of thousands due at once waits for few passes', async () => {
    const type = freshType()
    await db().query(
      `select fencepost.enqueue_batch($1, array_fill('{}'::jsonb, array[40000]), delay => '1 s')`,
      [type],
    )
    await moveClock(db(), '1 hour')
    await maintain(db())
    await maintain(db())
    expect(
      await one(
        db(),
        'select count(*) from fencepost_private.delayed where available_at <= fencepost_private.now()',
      ),
    ).toBe(0)
  })

  it('comes by priority, then as it became ready, and with others at once in order of enqueue', async () => {
    const type = freshType()
    const ids: number[] = []
    for (const delay of ['60 s', '10 s', '9 s']) ids.push(await enqueue(db(), type, { delay }))
    const high = await enqueue(db(), type, { delay: '60 s', priority: 8 })
    for (let n = 0; n < 2; n++) {
      await moveClock(db(), '50 s')
      await maintain(db())
    }
    const claimed = (await claim(db(), type, 10)).map((job) => job.job_id)
    expect(claimed).toEqual([high, ids[1], ids[2], ids[0]])
  })

  it('knows since when it could have run', async () => {
    const type = freshType()
    await enqueue(db(), type, { delay: '1 hour' })
    await moveClock(db(), '90 minutes')
    await claimOne(db(), type)
    const waited = await one<number>(
      db(),
      `select round(extract(epoch from l.started_at - l.ready_at) / 60)::int
       from fencepost_private.lease l join fencepost_private.lane n on n.lane_id = l.lane_id
       join fencepost_private.job_type t on t.type_id = n.type_id where t.type = $1`,
      [type],
    )
    expect(waited).toBe(30)
  })

  it('is promoted in bounded steps', async () => {
    const type = freshType()
    await db().query(
      `select fencepost.enqueue_batch($1, array_fill('{}'::jsonb, array[30]), delay => '1 s')`,
      [type],
    )
    await moveClock(db(), '1 minute')
    const moved = [1, 2, 3, 4].map(() => one<number>(db(), 'select fencepost_private.promote(10)'))
    const counts = []
    for (const each of moved) counts.push(await each)
    expect(counts.reduce((sum, each) => sum + each, 0)).toBe(30)
    expect(Math.max(...counts)).toBe(10)
    expect(await claim(db(), type, 100)).toHaveLength(30)
  })

  it('leaves no event behind by becoming ready', async () => {
    const type = freshType()
    const id = await enqueue(db(), type, { delay: '1 s' })
    await moveClock(db(), '2 s')
    await maintain(db())
    expect(await kinds(db(), id)).toEqual([])
  })
})

describe('next_due', () => {
  it('says when the next delayed job of these types is due', async () => {
    const [near, far] = [freshType(), freshType()]
    const next = (types: string[]) =>
      one<Date | null>(db(), 'select fencepost.next_due($1)', [types])
    expect(await next([near, far])).toBeNull()
    await enqueue(db(), far, { run_at: '2040-01-01T00:00:00Z' })
    await enqueue(db(), near, { run_at: '2039-01-01T00:00:00Z' })
    expect(await next([near, far])).toEqual(new Date('2039-01-01T00:00:00Z'))
    expect(await next([far])).toEqual(new Date('2040-01-01T00:00:00Z'))
    expect(await next([])).toBeNull()
  })
})
