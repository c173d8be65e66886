import { afterAll, beforeAll, expect, it } from 'vitest'
import { moveClock } from '../support/clock.ts'
import {
  claim,
  complete,
  enqueue,
  enqueueBatch,
  freshType,
  maintain,
  outcomes,
  places,
  started,
  status,
  violations,
} from '../support/engine.ts'
import { ownDatabase } from '../support/server.ts'
import { Session } from '../support/sessions.ts'
import { one, refused } from '../support/sql.ts'

// Two-phase commit: a prepared transaction stays in flight without a session, for as long as somebody likes.

const database = ownDatabase()
const db = () => database.db
let session: Session
beforeAll(async () => {
  session = await Session.open(database.url)
  await session.query(`set fencepost.wake = 'off'`)
})
afterAll(async () => {
  expect(await violations(db())).toEqual([])
  await session[Symbol.asyncDispose]()
})

const id = () => `${database.name}-${Math.random()}`

it('jobs of a prepared transaction come when it commits, and never when it rolls back', async () => {
  for (const end of ['commit prepared', 'rollback prepared']) {
    const type = freshType()
    await enqueue(db(), type)
    const name = id()
    await session.begin()
    await session.query('select fencepost.enqueue($1)', [type])
    await session.query(`prepare transaction '${name}'`)
    expect(await claim(db(), type, 9)).toHaveLength(1)
    await moveClock(db(), '1 s')
    await enqueueBatch(db(), type, 2)
    expect(await claim(db(), type, 9)).toHaveLength(2)
    await db().query(`${end} '${name}'`)
    expect(await claim(db(), type, 9)).toHaveLength(end === 'commit prepared' ? 1 : 0)
  }
})

it('a prepared completion holds its lease against the sweep until it is decided', async () => {
  const type = freshType()
  const name = id()
  const job = await started(db(), type, {}, 'two-phase')
  await session.begin()
  await session.query('select fencepost.complete($1, $2)', [job.job_id, job.token])
  await session.query(`prepare transaction '${name}'`)
  await db().query(`select fencepost.register_worker('two-phase')`)
  await maintain(db())
  expect(await places(db(), job.job_id)).toEqual(['lease'])
  await db().query(`commit prepared '${name}'`)
  await maintain(db())
  expect(await outcomes(db(), job.job_id)).toEqual(['completed'])
})

it('a prepared claim is found again when it rolls back, and swept when it commits', async () => {
  const type = freshType()
  const [first, second] = [id(), id()]
  const job = await enqueue(db(), type)
  const worker = await one<number>(
    db(),
    `select fencepost.register_worker('preparer', ttl => '1 day')`,
  )
  const prepare = async (name: string) => {
    await session.begin()
    await session.query(`select fencepost.exchange($1, types => array[$2::text], max => 1)`, [
      worker,
      type,
    ])
    await session.query(`prepare transaction '${name}'`)
  }
  await prepare(first)
  for (let n = 0; n < 3; n++) {
    await moveClock(db(), '1 s')
    await enqueueBatch(db(), type, 1)
    expect(await claim(db(), type, 1)).toHaveLength(1)
  }
  await db().query(`rollback prepared '${first}'`)
  await prepare(second)
  expect(await one(db(), `select count(*) from fencepost_private.ready where id = $1`, [job])).toBe(
    1,
  )
  await db().query(`select fencepost.register_worker('preparer')`)
  await maintain(db())
  await db().query(`commit prepared '${second}'`)
  expect(await status(db(), job)).toBe('running')
  await maintain(db())
  expect(await outcomes(db(), job)).toEqual(['lease_expired'])
})

it('one that would notify is refused by the server, unless notifications are off', async () => {
  const type = freshType()
  await enqueue(db(), type)
  await using sleeper = await Session.open(database.url)
  const groups = await one<number[]>(db(), 'select fencepost.wake_groups($1)', [[type]])
  await sleeper.query('select fencepost.sleep_lock($1)', [groups])
  await using other = await Session.open(database.url)
  await other.begin()
  await other.query('select fencepost.enqueue($1)', [type])
  await refused(other.query(`prepare transaction '${id()}'`), '0A000')
  const job = await started(db(), freshType())
  await complete(db(), job)
})
