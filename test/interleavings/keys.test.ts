import { afterAll, describe, expect, it } from 'vitest'
import { moveClock, restoreClock } from '../support/clock.ts'
import {
  claim,
  claimOne,
  complete,
  enqueue,
  freshType,
  settings,
  violations,
} from '../support/engine.ts'
import { ownDatabase } from '../support/server.ts'
import { Session } from '../support/sessions.ts'
import { one, refused } from '../support/sql.ts'

const database = ownDatabase()
const db = () => database.db
afterAll(async () => expect(await violations(db())).toEqual([]))

const ENQUEUE = `select fencepost.enqueue($1, $2::jsonb, idempotency_key => 'k') as id`
const ready = async () => {
  const type = freshType()
  await enqueue(db(), type)
  await claim(db(), type)
  return type
}

describe('enqueue x enqueue of one key', () => {
  it('the second waits, and gets the job of the first', async () => {
    const type = await ready()
    await using a = await Session.open(database.url)
    await using b = await Session.open(database.url)
    await a.begin()
    const first = await a.query(ENQUEUE, [type, '1'])
    const waiting = await b.blocks(ENQUEUE, [type, '1'])
    await a.commit()
    expect(await waiting.answer).toEqual(first)
    expect(await claim(db(), type, 9)).toHaveLength(1)
  })

  it('the second waits, and makes the job when the first rolls back', async () => {
    const type = await ready()
    await using a = await Session.open(database.url)
    await using b = await Session.open(database.url)
    await a.begin()
    const [first] = await a.query<{ id: number }>(ENQUEUE, [type, '1'])
    const waiting = await b.blocks<{ id: number }>(ENQUEUE, [type, '2'])
    await a.rollback()
    const [second] = await waiting.answer
    expect(second?.id).not.toBe(first?.id)
    expect(await claimOne(db(), type)).toMatchObject({ job_id: second?.id, payload: 2 })
  })

  it('the second is refused when the first commits another payload', async () => {
    const type = await ready()
    await using a = await Session.open(database.url)
    await using b = await Session.open(database.url)
    await a.begin()
    await a.query(ENQUEUE, [type, '1'])
    const waiting = await b.blocks(ENQUEUE, [type, '2'])
    await a.commit()
    await refused(waiting.answer, 'JE005')
  })

  it('one whose snapshot is older than the key fails cleanly', async () => {
    const type = await ready()
    await using a = await Session.open(database.url)
    await a.begin('repeatable read')
    await a.query('select count(*) from fencepost_private.idempotency_key')
    await enqueue(db(), type, { payload: 1, idempotency_key: 'k' })
    await refused(a.query(ENQUEUE, [type, '1']), '40001')
    await a.rollback()
    expect(await claim(db(), type, 9)).toHaveLength(1)
  })

  it('lists with the same keys in opposite orders do not deadlock', async () => {
    const type = await ready()
    const list = (order: number[]) =>
      JSON.stringify(order.map((n) => ({ type, idempotency_key: `key-${n}` })))
    const keys = Array.from({ length: 50 }, (_, n) => n)
    const sessions = await Promise.all([1, 2, 3, 4].map(() => Session.open(database.url)))
    const answers = await Promise.all(
      sessions.map((session, which) =>
        session.query<{ created: boolean }>(
          'select created from fencepost.enqueue_many($1::jsonb)',
          [list(which % 2 ? keys : [...keys].reverse())],
        ),
      ),
    )
    expect(answers.flat().filter((row) => row.created)).toHaveLength(50)
    for (const session of sessions) await session[Symbol.asyncDispose]()
  })
})

describe('enqueue x retirement of its key', () => {
  it('waits for the removal of the old job, and makes a new one', async () => {
    const type = await ready()
    await settings(db(), type, { keep_finished: '1 hour' })
    const old = await enqueue(db(), type, { payload: 1, idempotency_key: 'k' })
    await complete(db(), await claimOne(db(), type))
    await moveClock(db(), '2 hours')
    await using a = await Session.open(database.url)
    await using b = await Session.open(database.url)
    await a.begin()
    await a.query('select fencepost_private.retire_jobs()')
    expect(await a.query('select id from fencepost_private.job where id = $1', [old])).toEqual([])
    const waiting = await b.blocks<{ id: number }>(ENQUEUE, [type, '2'])
    await a.commit()
    const [made] = await waiting.answer
    expect(made?.id).not.toBe(old)
    expect(await claimOne(db(), type)).toMatchObject({ job_id: made?.id, payload: 2 })
    expect(
      await one(
        db(),
        `select job_id from fencepost_private.idempotency_key where key = 'k' and job_id = $1`,
        [made?.id],
      ),
    ).toBe(made?.id)
    await restoreClock(db())
  })
})
