import { expect, it } from 'vitest'
import { signatures } from '../../src/database/engine.ts'
import { ownDatabase } from '../support/server.ts'

const database = ownDatabase()

it('names every function of the schema fencepost with its parameters, and no other', async () => {
  const rows = await database.db.query<{ name: string; parameters: string[] | null }>(
    `select p.proname as name,
            (select array_agg(a.name order by a.place)
             from unnest(p.proargnames, p.proargmodes) with ordinality as a(name, mode, place)
             where coalesce(a.mode, 'i') in ('i', 'b', 'v')) as parameters
     from pg_proc p
     where p.pronamespace = 'fencepost'::regnamespace
     order by p.proname`,
  )
  const catalog = Object.fromEntries(rows.map(({ name, parameters }) => [name, parameters ?? []]))
  expect(signatures).toEqual(catalog)
})
