import { once } from 'node:events'
import { describe, expect, it, type TestContext } from 'vitest'
import { connect } from '../../src/database/database.ts'
import { Listener } from '../../src/database/listener.ts'
import { type Bouncer, startBouncer } from '../support/bouncer.ts'
import { required } from '../support/required.ts'
import { ownDatabase } from '../support/server.ts'

const database = ownDatabase({ migrated: false })

function bounced(mode: 'transaction' | 'session', context: TestContext): Promise<Bouncer> {
  return startBouncer(required('pgbouncer', context), database.url, mode)
}

describe('behind PgBouncer in transaction mode', () => {
  it('queries and transactions work without prepared statements', async (context) => {
    await using bouncer = await bounced('transaction', context)
    const { url } = bouncer
    await using db = connect({ url, max: 20, prepare: false })
    const work = Array.from({ length: 200 }, async (_, index) => {
      const params = [index, ['a', null], new Date(0)]
      const text = 'select $1::int8 as n, $2::text[] as texts, $3::timestamptz as at'
      const [rows] =
        index % 4 === 0
          ? [await db.transaction((tx) => tx.query(text, params))]
          : [await db.query(text, params)]
      expect(rows).toEqual([{ n: index, texts: ['a', null], at: new Date(0) }])
    })
    await Promise.all(work)
    // The URL can say it too, in the words of other libraries.
    await using said = connect({ url: `${url}?pgbouncer=true`, max: 2 })
    await said.query('select $1::int', [1])
    expect(await said.query('select from pg_prepared_statements')).toEqual([])
  })

  it('it is found out that nothing can be prepared, at the cost of one transaction', async (context) => {
    await using bouncer = await bounced('transaction', context)
    const { url } = bouncer
    const reasons: Error[] = []
    await using holder = connect({ url, max: 1 })
    await using db = connect({ url, max: 1, onRebuild: (reason) => reasons.push(reason) })
    const ask = (n: number) =>
      db.transaction((tx) =>
        tx.query<{ pid: number }>('select pg_backend_pid() as pid, $1::int as n', [n]),
      )
    const pooled = { code: 'POOLED', hint: expect.stringContaining('?pgbouncer=true') }
    const [first] = await ask(1)
    await holder.transaction(async (tx) => {
      // the pooler lends the session that was used last, where the statement was prepared
      const [held] = await tx.query<{ pid: number }>('select pg_backend_pid() as pid')
      expect(held?.pid).toBe(first?.pid)
      await expect(ask(2)).rejects.toMatchObject({ ...pooled, outcome: 'not_sent' })
      expect(await ask(3)).toMatchObject([{ n: 3 }])
    })
    for (let n = 4; n < 8; n++) expect(await ask(n)).toMatchObject([{ n }])
    expect(reasons).toMatchObject([pooled])
  })

  it('a statement that misses its deadline is stopped on the server', async (context) => {
    await using bouncer = await bounced('transaction', context)
    const { url } = bouncer
    await using db = connect({ url, prepare: false })
    const missed = db.query('select pg_sleep(62)', [], { timeout: 200 })
    await expect(missed).rejects.toMatchObject({ name: 'QueryTimeoutError' })
    const running = () =>
      database.db.query(
        "select from pg_stat_activity where query like '%pg_sleep(62)%' and state = 'active' and pid <> pg_backend_pid()",
      )
    await expect.poll(running).toEqual([])
    expect(await db.query('select 1 as one')).toEqual([{ one: 1 }])
  })

  it('a listener finds out that nothing comes through, and is off without a lock left behind', async (context) => {
    await using bouncer = await bounced('transaction', context)
    const { url } = bouncer
    await using listener = new Listener({ url })
    const told: string[] = []
    const off = new Promise<string>((resolve) => {
      listener.on('state', (state, reason) => {
        told.push(state)
        if (state === 'off') resolve(reason)
      })
    })
    listener.start()
    // What the state is and what was told of it never differ: a reader may look at either.
    await expect.poll(() => listener.state, { interval: 1 }).toBe('off')
    expect(told.at(-1)).toBe('off')
    expect(await off).toContain('a pooler is in between')
    expect(listener.session.ready).toBe(false)
    expect(
      await database.db.query(
        "select from pg_locks where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())",
      ),
    ).toEqual([])
  })
})

describe('behind PgBouncer in session mode', () => {
  it('a listener works', async (context) => {
    await using bouncer = await bounced('session', context)
    const { url } = bouncer
    await using listener = new Listener({ url })
    listener.start()
    await expect.poll(() => listener.state).toBe('ready')
    expect(listener.session.pooled).toBe(true)
    const wake = once(listener, 'wake')
    await database.db.query("select pg_notify('fencepost', '{\"wake\":[5]}')")
    expect(await wake).toEqual([[5]])
  })
})
