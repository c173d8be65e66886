import { readFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { claim, enqueue, freshType, maintain, violations } from '../support/engine.ts'
import { createConsumer, drainEvents, publishing } from '../support/outbox.ts'
import { restoreAsDump } from '../support/restored.ts'
import { type TestDatabase, testDatabase } from '../support/server.ts'
import { column, one, refused } from '../support/sql.ts'

// A dump of this database, restored into a server whose transaction numbers are others.

let database: TestDatabase
const db = () => database.db
beforeEach(async () => {
  database = await testDatabase()
})
afterEach(() => database.drop())

const isRestored = () => one<boolean>(db(), 'select fencepost_private.is_restored()')
const afterRestore = () =>
  column<string>(db(), 'select step || $1 || done from fencepost.after_restore()', [': '])

describe('after a logical restore', () => {
  it.each([
    ['before a late commit', true],
    ['when all was read', false],
  ])('consumers go on where they were: %s', async (_when, late) => {
    const type = await publishing(db(), freshType())
    await createConsumer(db(), 'reader', { types: [type] })
    for (let index = 0; index < 5; index++) await enqueue(db(), type)
    expect(await drainEvents(db(), 'reader')).toHaveLength(5)
    for (let index = 0; index < (late ? 4 : 0); index++) await enqueue(db(), type)

    await restoreAsDump(db(), 1_000_000_000)
    await afterRestore()
    expect(await drainEvents(db(), 'reader', 3)).toHaveLength(late ? 4 : 0)
    await enqueue(db(), type)
    expect(await drainEvents(db(), 'reader')).toHaveLength(1)
    await maintain(db())
    expect(await violations(db())).toEqual([])
  })

  it('nothing of what is written before after_restore() is lost, also once this server has overtaken the other', async () => {
    const type = await publishing(db(), freshType())
    await createConsumer(db(), 'reader', { types: [type] })
    for (let index = 0; index < 5; index++) await enqueue(db(), type)
    expect(await drainEvents(db(), 'reader')).toHaveLength(5)
    await maintain(db())

    await restoreAsDump(db(), 300)
    const written = []
    for (let index = 0; index < 7; index++) written.push(await enqueue(db(), type))
    for (let index = 0; index < 400; index++) await db().query('select pg_current_xact_id()')

    expect(await isRestored()).toBe(true)
    for (const call of [
      'maintain()',
      `read_events('reader')`,
      'list_events()',
      'event_position()',
      'relay_webhooks()',
      `seek_consumer('reader', 'now')`,
      `create_consumer('another')`,
    ]) {
      const { hint } = await refused(db().query(`select * from fencepost.${call}`), 'JE004')
      expect(hint, call).toContain('after_restore()')
    }
    expect(
      await column(db(), `select severity from fencepost.doctor() where topic = 'restored'`),
    ).toEqual(['error'])

    expect(await afterRestore()).toContain('consumers moved to the new numbers: 1')
    expect((await drainEvents(db(), 'reader')).map((event) => event.job_id)).toEqual(written)
    await maintain(db())
    expect((await claim(db(), type, 100)).map((job) => job.job_id)).toHaveLength(12)
    expect(await violations(db())).toEqual([])
  })

  it('tells how many webhooks deliver from the copy: none that was paused before', async () => {
    for (const name of ['billing', 'search'])
      await db().query(`select fencepost.create_webhook($1, 'https://example.com')`, [name])
    await restoreAsDump(db(), 100)
    await db().query(`select fencepost.configure_webhook('search', paused => true)`)
    expect((await afterRestore()).at(-1)).toBe('webhooks that now deliver from here: 1')
  })
})

describe('a database knows that it is a logical copy', () => {
  it('and that it is none after a freeze, a rewrite of the table and a physical copy', async () => {
    await db().query('vacuum (full, freeze) fencepost_private.origin')
    expect(await isRestored()).toBe(false)
    expect(await afterRestore()).toEqual([])
  })

  it('also when only its data was restored, beside what a migration had made, or no row came along', async () => {
    await db().query('insert into fencepost_private.origin values (7)')
    expect(await isRestored()).toBe(true)
    await db().query('delete from fencepost_private.origin')
    expect(await isRestored()).toBe(true)
    await afterRestore()
    expect(await isRestored()).toBe(false)
  })

  it('also when after_restore() was called in a subtransaction', async () => {
    await restoreAsDump(db(), 100)
    await db().transaction(async (tx) => {
      await tx.query('savepoint one')
      await tx.query('select * from fencepost.after_restore()')
    })
    expect(await isRestored()).toBe(false)
  })

  it('also when the schema was installed with a savepoint for each statement, as psql can', async () => {
    const table = readFileSync(new URL('../../sql/tables/origin.sql', import.meta.url), 'utf8')
    await db().transaction(async (tx) => {
      await tx.query('drop table fencepost_private.origin cascade')
      for (const statement of table.split(/(?<=^\S.*;)\n/m)) {
        await tx.query('savepoint one')
        await tx.query(statement)
        await tx.query('release one')
      }
    })
    expect(await one(db(), 'select count(*) from fencepost_private.origin')).toBe(1)
    expect(await isRestored()).toBe(false)
  })
})
