import { afterAll, beforeEach, describe, expect, it } from 'vitest'
import { moveClock, restoreClock } from '../support/clock.ts'
import {
  claim,
  claimOne,
  enqueue,
  enqueueBatch,
  freshType,
  kinds,
  places,
  status,
  violations,
} from '../support/engine.ts'
import { ownDatabase } from '../support/server.ts'
import { Session } from '../support/sessions.ts'
import { refused } from '../support/sql.ts'

const database = ownDatabase()
const db = () => database.db
let type: string
afterAll(async () => expect(await violations(db())).toEqual([]))
beforeEach(async () => {
  type = freshType()
  for (const priority of [5, 8]) {
    await enqueue(db(), type, { priority })
    await claim(db(), type)
  }
})

const claims = (session: Session, max: number) =>
  session
    .query<{ job_id: number }>(
      `select job_id from fencepost.claim('worker-1', array[$1::text], $2)`,
      [type, max],
    )
    .then((rows) => rows.map((row) => row.job_id))

describe('claim x claim', () => {
  it('takes what the other has not, without waiting, and what it gave back after', async () => {
    const ids = await enqueueBatch(db(), type, 5)
    await using a = await Session.open(database.url)
    await using b = await Session.open(database.url)
    await a.begin()
    await b.begin()
    expect(await claims(a, 2)).toEqual(ids.slice(0, 2))
    expect(await claims(b, 2)).toEqual(ids.slice(2, 4))
    expect(await claims(a, 9)).toEqual(ids.slice(4))
    expect(await claims(b, 9)).toEqual([])
    await a.rollback()
    expect(await claims(b, 9)).toEqual([ids[0], ids[1], ids[4]])
    await b.commit()
    for (const id of ids) expect(await places(db(), id)).toEqual(['lease'])
  })

  it('keeps nothing of a savepoint that rolled back, neither leases nor watermark', async () => {
    const ids = await enqueueBatch(db(), type, 6)
    await using a = await Session.open(database.url)
    await a.begin()
    expect(await claims(a, 1)).toEqual([ids[0]])
    await a.query('savepoint deep')
    await moveClock(db(), '1 s')
    expect(await claims(a, 3)).toEqual(ids.slice(1, 4))
    await a.query('rollback to deep')
    await moveClock(db(), '1 s')
    expect(await claims(a, 2)).toEqual(ids.slice(1, 3))
    await a.commit()
    expect((await claim(db(), type, 9)).map((job) => job.job_id)).toEqual(ids.slice(3))
    await restoreClock(db())
  })

  it('takes in one transaction what it enqueued there, in savepoints too', async () => {
    await using a = await Session.open(database.url)
    await a.begin()
    await a.query('savepoint one')
    await a.query('select fencepost.enqueue($1)', [type])
    await a.query('rollback to one')
    const [kept] = await a.query<{ id: number }>('select fencepost.enqueue($1) as id', [type])
    await enqueueBatch(db(), type, 1)
    await moveClock(db(), '1 s')
    expect(await claims(a, 1)).toEqual([kept?.id])
    const [later] = await a.query<{ id: number }>('select fencepost.enqueue($1) as id', [type])
    expect(await claims(a, 9)).toContain(later?.id)
    await a.commit()
    await restoreClock(db())
  })
})

describe('cancel x claim', () => {
  const cancel = 'select fencepost.cancel($1) as verdict'

  it('waits for a claim in flight, and then asks the worker', async () => {
    const id = await enqueue(db(), type)
    await using a = await Session.open(database.url)
    await using b = await Session.open(database.url)
    await a.begin()
    await claims(a, 1)
    const waiting = await b.blocks(cancel, [id])
    await a.commit()
    expect(await waiting.answer).toEqual([{ verdict: 'cancel_requested' }])
    expect(await status(db(), id)).toBe('running')
  })

  it('waits for a claim in flight, and cancels at once when that rolls back', async () => {
    const id = await enqueue(db(), type)
    await using a = await Session.open(database.url)
    await using b = await Session.open(database.url)
    await a.begin()
    await claims(a, 1)
    const waiting = await b.blocks(cancel, [id])
    await a.rollback()
    expect(await waiting.answer).toEqual([{ verdict: 'cancelled' }])
    expect(await claim(db(), type)).toEqual([])
  })

  it('is passed over by a claim while it is open', async () => {
    const [first, second] = await enqueueBatch(db(), type, 2)
    await using a = await Session.open(database.url)
    await a.begin()
    await a.query(cancel, [first])
    expect((await claim(db(), type, 9)).map((job) => job.job_id)).toEqual([second])
    await a.rollback()
    expect((await claim(db(), type, 9)).map((job) => job.job_id)).toEqual([first])
  })

  it('finds a job that moves from place to place meanwhile', async () => {
    const id = await enqueue(db(), type)
    await using a = await Session.open(database.url)
    await using b = await Session.open(database.url)
    for (let n = 0; n < 3; n++) {
      // ready -> lease -> ready, in one commit, while cancel waits
      await a.begin()
      await claims(a, 1)
      await a.query('select fencepost.release($1, $2)', [id, n + 1])
      if (n < 2) {
        await a.commit()
        continue
      }
      const waiting = await b.blocks(cancel, [id])
      await a.commit()
      expect(await waiting.answer).toEqual([{ verdict: 'cancelled' }])
    }
    expect(await kinds(db(), id)).toEqual([
      'job.released',
      'job.released',
      'job.released',
      'job.cancelled',
    ])
  })
})

describe('reprioritize x claim', () => {
  it('waits for a claim in flight: a running job keeps its place', async () => {
    const id = await enqueue(db(), type)
    await using a = await Session.open(database.url)
    await using b = await Session.open(database.url)
    await a.begin()
    await claims(a, 1)
    const waiting = await b.blocks('select fencepost.reprioritize($1, 8)', [id])
    await a.commit()
    await refused(waiting.answer, 'JE004')
    expect(await places(db(), id)).toEqual(['lease'])
  })

  it('moves the job when the claim rolls back', async () => {
    const id = await enqueue(db(), type)
    await using a = await Session.open(database.url)
    await using b = await Session.open(database.url)
    await a.begin()
    await claims(a, 1)
    const waiting = await b.blocks('select fencepost.reprioritize($1, 8)', [id])
    await a.rollback()
    await waiting.answer
    expect(await claimOne(db(), type)).toMatchObject({ job_id: id, priority: 8 })
  })

  it('is invisible to claims until it commits, and then found in its new lane', async () => {
    const id = await enqueue(db(), type)
    await using a = await Session.open(database.url)
    await a.begin()
    await a.query('select fencepost.reprioritize($1, 8)', [id])
    for (let n = 0; n < 3; n++) {
      await enqueueBatch(db(), type, 1)
      await moveClock(db(), '1 s')
      const [other] = await claim(db(), type, 1)
      expect(other?.job_id).not.toBe(id)
    }
    await a.commit()
    expect(await claimOne(db(), type)).toMatchObject({ job_id: id, priority: 8 })
    await restoreClock(db())
  })
})

describe('a new lane', () => {
  it('made by two at once is made once: the second waits for the first', async () => {
    const fresh = freshType()
    await using a = await Session.open(database.url)
    await using b = await Session.open(database.url)
    await a.begin()
    await a.query('select fencepost.enqueue($1)', [fresh])
    const waiting = await b.blocks('select fencepost.enqueue($1)', [fresh])
    await a.rollback()
    await waiting.answer
    expect(await claim(db(), fresh, 9)).toHaveLength(1)
  })

  it('of a declared type is there: nobody waits for the first to enqueue', async () => {
    const declared = freshType()
    await db().query('select fencepost.declare_type($1)', [declared])
    await using a = await Session.open(database.url)
    await a.begin()
    await a.query('select fencepost.enqueue($1)', [declared])
    await enqueue(db(), declared)
    await a.commit()
    expect(await claim(db(), declared, 9)).toHaveLength(2)
  })

  it('in repeatable read fails cleanly when another made it meanwhile', async () => {
    const fresh = freshType()
    await using a = await Session.open(database.url)
    await a.begin('repeatable read')
    await a.query('select 1 from fencepost_private.lane limit 1')
    await enqueue(db(), fresh)
    await refused(a.query('select fencepost.enqueue($1)', [fresh]), '40001')
    await a.rollback()
    expect(await claim(db(), fresh, 9)).toHaveLength(1)
  })
})
