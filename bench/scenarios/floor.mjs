import { now } from '../lib/clock.mjs'
import { connect } from '../lib/postgres.mjs'

const CONNECTIONS = [1, 2]

/** Rows one by one, as a producer without batches writes them; NOTIFY makes commits wait in line. */
const SINGLES = {
  plain: 'insert into floor select $1',
  notifying: `with added as (insert into floor select $1) select pg_notify('floor', '')`,
}
const SINGLE_CONNECTIONS = 8

/** What no queue in PostgreSQL can exceed: a minimal row inserted, and deleted, in batches. */
export const floor = {
  name: 'floor',
  title: 'The floor',
  about:
    'Plain SQL: insert a batch of minimal rows (an id, nothing else) and commit; delete that batch by its range and commit. Rows a second through both, on 1 and on 2 connections. Below that, rows inserted one by one on 8 connections, without and with a NOTIFY in each.',
  unit: 'rows/s',
  higher: true,
  sizes: {
    quick: { batches: [100, 1000], ms: 700 },
    full: { batches: [100, 500, 1000], ms: 4000 },
  },
  suits: (system) => system.name === 'floor',

  async round(stage, _system, { batches, ms }) {
    return await stage.withDatabase(async ({ url }) => {
      const clients = await Promise.all(CONNECTIONS.map(() => connect(url)))
      await clients[0].query('create table floor (id bigint primary key)')
      const cases = []
      for (const batch of batches) {
        for (const connections of CONNECTIONS) {
          const runs = clients
            .slice(0, connections)
            .map((client, index) => insertAndDelete(client, index * 1e12, batch, ms))
          const lives = await Promise.all(runs)
          const sum = (part) => lives.reduce((total, life) => total + life[part], 0)
          cases.push({
            batch,
            connections,
            both: sum('both'),
            insert: sum('insert'),
            delete: sum('delete'),
          })
        }
      }
      await Promise.all(clients.map((client) => client.end()))
      const singles = {}
      for (const [kind, text] of Object.entries(SINGLES)) {
        singles[kind] = await insertSingles(url, text, ms)
      }
      return { value: Math.max(...cases.map(({ both }) => both)), cases, singles }
    })
  },
}

async function insertAndDelete(client, base, batch, ms) {
  const insert = {
    name: 'insert_rows',
    text: 'insert into floor select n from generate_series($1::bigint, $2::bigint) n',
  }
  const remove = { name: 'delete_rows', text: 'delete from floor where id between $1 and $2' }
  let rows = 0
  const spent = { insert: 0, delete: 0 }
  const end = now() + ms
  while (now() < end) {
    const values = [base + rows + 1, base + rows + batch]
    const startedAt = now()
    await client.query({ ...insert, values })
    const insertedAt = now()
    await client.query({ ...remove, values })
    spent.insert += insertedAt - startedAt
    spent.delete += now() - insertedAt
    rows += batch
  }
  return {
    both: (rows / (spent.insert + spent.delete)) * 1000,
    insert: (rows / spent.insert) * 1000,
    delete: (rows / spent.delete) * 1000,
  }
}

/** Rows a second, each in a transaction of its own, on several connections. */
async function insertSingles(url, text, ms) {
  const clients = await Promise.all(Array.from({ length: SINGLE_CONNECTIONS }, () => connect(url)))
  await clients[0].query('truncate floor')
  let rows = 0
  const end = now() + ms
  const name = `single_${text.length}`
  const insert = async (client) => {
    while (now() < end) await client.query({ name, text, values: [++rows] })
  }
  await Promise.all(clients.map(insert))
  await Promise.all(clients.map((client) => client.end()))
  return (rows / ms) * 1000
}
