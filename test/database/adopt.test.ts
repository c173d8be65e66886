import pg from 'pg'
import postgres from 'postgres'
import { beforeAll, describe, expect, it } from 'vitest'
import { adopt, type TransactionHandle } from '../../src/database/adopt.ts'
import { connect, DatabaseError, json } from '../../src/database/database.ts'
import { FencepostError } from '../../src/errors.ts'
import { ownDatabase } from '../support/server.ts'

const database = ownDatabase()
beforeAll(async () => {
  await database.db.query('create table note (id int8 primary key, body jsonb)')
})

/** Rolls back what `run` did on a transaction of some library. */
type Lend = (run: (handle: TransactionHandle) => Promise<unknown>) => Promise<void>

class Rollback extends Error {}

function postgresJs(options: postgres.Options<Record<string, postgres.PostgresType>>): Lend {
  return async (run) => {
    const sql = postgres(database.url, { max: 1, ...options })
    try {
      await sql.begin(async (tx) => {
        await run(tx)
        throw new Rollback()
      })
    } catch (error) {
      if (!(error instanceof Rollback)) throw error
    } finally {
      await sql.end()
    }
  }
}

function nodePostgres(wrap: (client: pg.Client) => TransactionHandle): Lend {
  return async (run) => {
    const client = new pg.Client(database.url)
    await client.connect()
    try {
      await client.query('begin')
      await run(wrap(client))
    } finally {
      await client.query('rollback')
      await client.end()
    }
  }
}

const shouting = {
  to: 3802,
  from: [3802],
  serialize: (value: unknown) => JSON.stringify({ shout: value }),
  parse: () => 'a json',
}

const lenders: Record<string, Lend> = {
  'our own transaction': async (run) => {
    await using db = connect({ url: database.url })
    await db
      .transaction(async (tx) => {
        await run(tx)
        throw new Rollback()
      })
      .catch((error) => {
        if (!(error instanceof Rollback)) throw error
      })
  },
  'postgres.js': postgresJs({}),
  'postgres.js with other names, types and no prepared statements': postgresJs({
    transform: postgres.camel,
    types: { bigint: postgres.BigInt, shouting },
    prepare: false,
    fetch_types: false,
  }),
  'node-postgres': nodePostgres((client) => client),
  'node-postgres with other types': nodePostgres((client) => {
    client.setTypeParser(20, BigInt)
    client.setTypeParser(3802, () => 'a json')
    return client
  }),
}

describe.each(Object.entries(lenders))('%s', (_name, lend) => {
  it('gives and takes what our own connections do', async () => {
    const value = { to: 'ü😀', list: [1, null, '"'] }
    await lend(async (handle) => {
      const tx = adopt(handle)
      const rows = await tx.query(
        `select $1::int8 as big_id, $2::jsonb as body, jsonb_typeof($3) as scalar, $4::jsonb[] as bodies,
                $5::text[] as texts, $6::int8[] as ids, $7::timestamptz as created_at, null::text as nothing,
                '1 day'::interval as delay, true as fine
         where $2::jsonb = $8::jsonb`,
        [
          2 ** 31 + 1,
          json(value),
          json('scalar'),
          [json(value), json('x'), null],
          ['a,"\\', '', null, 'null'],
          [2 ** 40, null],
          new Date('2026-11-30T00:00:00.123Z'),
          json(value),
        ],
      )
      expect(rows).toStrictEqual([
        {
          big_id: 2 ** 31 + 1,
          body: value,
          scalar: 'string',
          bodies: [value, 'x', null],
          texts: ['a,"\\', '', null, 'null'],
          ids: [2 ** 40, null],
          created_at: new Date('2026-11-30T00:00:00.123Z'),
          nothing: null,
          delay: '1 day',
          fine: true,
        },
      ])
      expect(await tx.query('select 1 as a')).toStrictEqual([{ a: 1 }])
      expect(await tx.query("set local work_mem = '1MB'")).toStrictEqual([])
    })
  })

  it('works inside the transaction', async () => {
    await lend(async (handle) => {
      const tx = adopt(handle)
      await tx.query('insert into note values ($1, $2)', [1, json({ a: 1 })])
      expect(await tx.query('select id, body from note')).toEqual([{ id: 1, body: { a: 1 } }])
      expect(await database.db.query('select from note')).toEqual([])
    })
    expect(await database.db.query('select from note')).toEqual([])
  })

  it('raises our errors', async () => {
    const raised: unknown[] = []
    for (const text of [
      "select fencepost_private.raise_error('JE001', 'lost', 'd', 'h')",
      'oops',
    ]) {
      const work = lend(async (handle) => {
        const failed = adopt(handle).query(text)
        await failed.catch((error) => raised.push(error))
        await failed
      })
      await expect(work).rejects.toThrow()
    }
    expect(raised[0]).toBeInstanceOf(FencepostError)
    expect(raised[0]).toMatchObject({ code: 'JE001', detail: 'd', hint: 'h' })
    expect(raised[1]).toBeInstanceOf(DatabaseError)
    expect(raised[1]).toMatchObject({ code: '42601' })
    await lend(async (handle) => {
      await expect(adopt(handle).query('select $1', ['\0'])).rejects.toMatchObject({
        code: 'JE003',
      })
    })
  })
})

describe('an adapter of the application', () => {
  const adapters: Record<string, (client: pg.Client) => TransactionHandle> = {
    'that gives rows and fields': (client) => ({
      query: (text: string, params?: unknown[]) => client.query(text, params),
    }),
    'that gives rows alone': (client) => ({
      query: async (text: string, params?: unknown[]) => {
        client.setTypeParser(20, BigInt)
        return (await client.query(text, params)).rows
      },
    }),
  }
  it.each(Object.entries(adapters))('%s', async (_name, wrap) => {
    await nodePostgres(wrap)(async (handle) => {
      const rows = await adopt(handle).query(
        'select $1::int8 as id, $2::jsonb as body where $3::jsonb[] is not null',
        [2 ** 40, json('text'), [json({ a: [1] })]],
      )
      expect(rows).toEqual([{ id: 2 ** 40, body: 'text' }])
    })
  })

  it("whose own errors are its own, and the server's found beneath them", async () => {
    const mine = new TypeError('not mine')
    const broken = adopt({ query: () => Promise.reject(mine) })
    await expect(broken.query('select 1')).rejects.toBe(mine)
    await nodePostgres((client) => ({
      query: (text: string) =>
        client.query(text).catch((cause) => {
          throw new Error('the library failed', { cause })
        }),
    }))(async (handle) => {
      const failed = adopt(handle).query("select fencepost_private.raise_error('JE002', 'none')")
      await expect(failed).rejects.toMatchObject({ code: 'JE002' })
    })
  })

  it('must be one', () => {
    expect(() => adopt({} as TransactionHandle)).toThrow('tx is no transaction')
  })
})
