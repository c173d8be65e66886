import { describe, expect, it } from 'vitest'
import { claim, claimOne, complete, enqueue, freshType, settings } from '../../support/engine.ts'
import { ownDatabase } from '../../support/server.ts'
import { Session } from '../../support/sessions.ts'
import { one, refused } from '../../support/sql.ts'

const database = ownDatabase()
const db = () => database.db

describe('an idempotency key', () => {
  it('makes one job of 50 enqueues at once', async () => {
    const type = freshType()
    const sessions = await Promise.all(Array.from({ length: 50 }, () => Session.open(database.url)))
    const answers = await Promise.all(
      sessions.map((session) =>
        session.query<{ id: number }>(
          `select fencepost.enqueue($1, '{"n": 1}', idempotency_key => 'once') as id`,
          [type],
        ),
      ),
    )
    const ids = new Set(answers.map((rows) => rows[0]?.id))
    expect(ids.size).toBe(1)
    expect(await claim(db(), type, 100)).toHaveLength(1)
    for (const session of sessions) await session[Symbol.asyncDispose]()
  })

  it('stays with its job also when that has run', async () => {
    const type = freshType()
    const id = await enqueue(db(), type, { idempotency_key: 'k' })
    await complete(db(), await claimOne(db(), type))
    expect(await enqueue(db(), type, { idempotency_key: 'k' })).toBe(id)
    expect(await claim(db(), type, 10)).toEqual([])
  })

  it('is refused for another payload, and compares JSON, not text', async () => {
    const type = freshType()
    const key = { idempotency_key: 'k' }
    const id = await enqueue(db(), type, { ...key, payload: { a: 1, b: [2] } })
    expect(await enqueue(db(), type, { ...key, payload: { b: [2], a: 1.0 } })).toBe(id)
    const refusal = await refused(enqueue(db(), type, { ...key, payload: { a: 2 } }), 'JE005')
    expect(refusal.detail).toContain(`job ${id}`)
  })

  it('belongs to a type and a tenant', async () => {
    const [type, other] = [freshType(), freshType()]
    const key = { idempotency_key: 'k' }
    const ids = [
      await enqueue(db(), type, key),
      await enqueue(db(), other, key),
      await enqueue(db(), type, { ...key, tenant: 'acme' }),
    ]
    expect(new Set(ids).size).toBe(3)
  })

  it('gives the job again while its type is closed or full', async () => {
    const type = freshType()
    const id = await enqueue(db(), type, { idempotency_key: 'k' })
    await settings(db(), type, { accept: false })
    expect(await enqueue(db(), type, { idempotency_key: 'k' })).toBe(id)
    await refused(enqueue(db(), type, { idempotency_key: 'other' }), 'JE007')
    await settings(db(), type, { accept: true, max_pending: 1 })
    expect(await enqueue(db(), type, { idempotency_key: 'k' })).toBe(id)
    await refused(enqueue(db(), type, { idempotency_key: 'other' }), 'JE007')
  })

  it('is free again when its enqueue rolls back', async () => {
    const type = freshType()
    await using session = await Session.open(database.url)
    await session.begin()
    await session.query(`select fencepost.enqueue($1, '1', idempotency_key => 'k')`, [type])
    await session.rollback()
    await enqueue(db(), type, { payload: 2, idempotency_key: 'k' })
    expect((await claimOne(db(), type)).payload).toBe(2)
  })

  it('is found by index also in a session whose plan is older than the keys', async () => {
    const type = freshType()
    await using session = await Session.open(database.url)
    const text = `select fencepost.enqueue($1, idempotency_key => $2)`
    for (let n = 0; n < 8; n++) await session.query(text, [type, `early-${n}`])
    await db().query(
      `select count(fencepost.enqueue($1, idempotency_key => 'key-' || n)) from generate_series(1, 5000) as n`,
      [type],
    )
    await session.begin()
    const scans = () =>
      session.query<{ scans: number }>(
        `select seq_scan::int as scans from pg_stat_xact_user_tables where relname = 'idempotency_key'`,
      )
    const [before] = await scans()
    await session.query(text, [type, 'late'])
    const [after] = await scans()
    await session.commit()
    expect((after?.scans ?? 0) - (before?.scans ?? 0)).toBe(0)
    expect(
      await one(db(), `select count(*) from fencepost_private.idempotency_key where key = 'late'`),
    ).toBe(1)
  })
})
