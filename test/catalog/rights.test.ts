import { beforeAll, expect, it } from 'vitest'
import { connect, type Database } from '../../src/database/database.ts'
import { bury, enqueue, freshType, started } from '../support/engine.ts'
import { createConsumer, readEvents } from '../support/outbox.ts'
import { freshRole } from '../support/role.ts'
import { begin, drain } from '../support/runs.ts'
import { ownDatabase } from '../support/server.ts'
import { column, one } from '../support/sql.ts'

// What a role may without being the owner: views lend their rights to tables, not to the functions that they call.

const database = ownDatabase()
const db = () => database.db

const views = () =>
  column<string>(
    db(),
    `select c.oid::regclass::text from pg_class c
     where c.relnamespace = 'fencepost'::regnamespace and c.relkind in ('v', 'm') order by 1`,
  )

/** As a role that may use the schema and read its views. */
async function asReader<T>(look: (own: Database) => Promise<T>): Promise<T> {
  await using role = await freshRole(database.url)
  await db().query(`grant usage on schema fencepost to ${role.name}`)
  await db().query(`grant select on all tables in schema fencepost to ${role.name}`)
  await using own = connect({ url: role.url })
  return await look(own)
}

beforeAll(async () => {
  const type = freshType()
  await createConsumer(db(), 'reader')
  await db().query(`select fencepost.create_webhook('billing', 'https://example.com')`)
  await bury(db(), await started(db(), type))
  await enqueue(db(), type)
  await readEvents(db(), 'reader')
  const run = await begin(db(), { only: {} })
  await drain(db(), run.workflow, ['only'])
})

it('every public view can be read without a right on what is private, and with the rows that the owner sees', async () => {
  const counts = (own: Database, names: readonly string[]) =>
    Promise.all(
      names.map(async (name) => [name, (await own.query(`select * from ${name}`)).length] as const),
    )
  const names = await views()
  expect(names.length).toBeGreaterThan(15)
  const seen = await asReader((own) => counts(own, names))
  expect(seen).toEqual(await counts(db(), names))
  for (const name of ['consumers', 'webhooks', 'jobs', 'runs'].map((word) => `fencepost.${word}`))
    expect(Object.fromEntries(seen)[name], name).toBeGreaterThan(0)
})

it('no view shows the secret of a webhook', async () => {
  const secret = await one<string>(db(), 'select secret from fencepost_private.webhook_secret')
  for (const name of await views())
    expect(
      await one(db(), `select coalesce(string_agg(v::text, ''), '') from ${name} as v`),
      name,
    ).not.toContain(secret.slice(6))
})

it("what hands out or takes secrets, or mends a restored database, is nobody's without a grant", async () => {
  expect(
    await column(
      db(),
      `select p.proname from pg_proc p
       where p.pronamespace = 'fencepost'::regnamespace
         and not exists (select from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) as a where a.grantee = 0)
       order by 1`,
    ),
  ).toEqual([
    'after_restore',
    'configure_webhook',
    'create_webhook',
    'rotate_webhook_secret',
    'webhook_delivery',
  ])
})

it('nobody but the owner may use the private schema', async () => {
  expect(
    await asReader((own) =>
      column(
        own,
        `select has_schema_privilege('fencepost_private', 'usage') or has_schema_privilege('fencepost_private', 'create')`,
      ),
    ),
  ).toEqual([false])
})
