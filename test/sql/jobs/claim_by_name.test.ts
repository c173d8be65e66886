import { describe, expect, it } from 'vitest'
import { freezeClock, moveClock, restoreClock } from '../../support/clock.ts'
import {
  claim,
  complete,
  enqueue,
  enqueueBatch,
  freshType,
  maintain,
  started,
} from '../../support/engine.ts'
import { ownDatabase } from '../../support/server.ts'
import { Session } from '../../support/sessions.ts'
import { one } from '../../support/sql.ts'

const database = ownDatabase()
const db = () => database.db

describe('a worker that claims by its name', () => {
  const workers = (name: string) =>
    db().query<{ worker_id: number; status: string; types: string[]; ttl: string }>(
      'select worker_id, status::text, types, ttl from fencepost_private.worker where name = $1 order by worker_id',
      [name],
    )

  it('is registered when it is unknown', async () => {
    await claim(db(), ['a', 'b'], 1, 'novice')
    expect(await workers('novice')).toMatchObject([
      { status: 'active', types: ['a', 'b'], ttl: '00:00:30' },
    ])
  })

  it('starts anew when it was lost or has stopped', async () => {
    await claim(db(), 'a', 1, 'phoenix')
    await db().query(`update fencepost_private.worker set status = 'lost' where name = 'phoenix'`)
    await claim(db(), 'a', 1, 'phoenix')
    const [, second] = await workers('phoenix')
    await one(db(), 'select fencepost.stop_worker($1)', [second?.worker_id])
    await claim(db(), 'a', 1, 'phoenix')
    expect((await workers('phoenix')).map((worker) => worker.status)).toEqual([
      'lost',
      'stopped',
      'active',
    ])
  })

  it('is one worker for all sessions that claim under its name, also when they are first at once', async () => {
    const type = freshType()
    await enqueueBatch(db(), type, 20)
    const sessions = await Promise.all(Array.from({ length: 20 }, () => Session.open(database.url)))
    await Promise.all(
      sessions.map((session) =>
        session.query(`select * from fencepost.claim('many', array[$1::text])`, [type]),
      ),
    )
    expect(await workers('many')).toMatchObject([{ status: 'active' }])
    await maintain(db())
    expect(await claim(db(), type, 20, 'many')).toEqual([])
    for (const session of sessions) await session[Symbol.asyncDispose]()
  })

  it('does not wait for another session of its name that stays open', async () => {
    const type = freshType()
    await enqueueBatch(db(), type, 2)
    await claim(db(), [], 0, 'two-handed')
    await moveClock(db(), '15 s')
    await using session = await Session.open(database.url)
    await session.begin()
    await session.query(`select * from fencepost.claim('two-handed', array[$1::text])`, [type])
    await moveClock(db(), '15 s')
    expect(await claim(db(), type, 1, 'two-handed')).toHaveLength(1)
    await session.commit()
    await restoreClock(db())
  })

  it('is given nothing while it drains, and what it holds stays its own', async () => {
    const type = freshType()
    const job = await started(db(), type, {}, 'drainer')
    await enqueue(db(), type)
    await db().query(
      `update fencepost_private.worker set status = 'draining' where name = 'drainer'`,
    )
    expect(await claim(db(), type, 1, 'drainer')).toEqual([])
    await complete(db(), job)
    expect(await claim(db(), type, 1, 'other')).toHaveLength(1)
  })

  it('writes its row no more than now and then, however its types alternate', async () => {
    const versions = () =>
      one<string>(db(), `select ctid::text from fencepost_private.worker where name = 'fickle'`)
    await freezeClock(db())
    for (const type of ['a', 'b', 'c']) await claim(db(), type, 1, 'fickle')
    const before = await versions()
    for (let n = 0; n < 12; n++) await claim(db(), ['a', 'b', 'c'][n % 3] as string, 1, 'fickle')
    expect(await versions()).toBe(before)
    expect((await workers('fickle'))[0]?.types.sort()).toEqual(['a', 'b', 'c'])
    await moveClock(db(), '15 s')
    await claim(db(), 'b', 1, 'fickle')
    expect((await workers('fickle'))[0]?.types).toEqual(['b'])
    await restoreClock(db())
  })

  it('has its whole ttl from a claim on, also when it never calls heartbeat', async () => {
    const type = freshType()
    await freezeClock(db())
    await claim(db(), type, 0, 'quiet')
    await moveClock(db(), '8 s')
    const job = await started(db(), type, {}, 'quiet')
    for (const pause of ['9 s', '16 s']) {
      await moveClock(db(), pause)
      await maintain(db())
    }
    await complete(db(), job)
    await restoreClock(db())
  })

  it('changes its ttl as it says', async () => {
    await db().query(`select * from fencepost.claim('patient', array['a'], ttl => '5 minutes')`)
    await db().query(`select * from fencepost.claim('patient', array['a'], ttl => '1 hour')`)
    await db().query(`select * from fencepost.claim('patient', array['a'])`)
    expect(await workers('patient')).toMatchObject([{ ttl: '01:00:00' }])
  })
})
