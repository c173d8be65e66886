import { beforeAll, describe, expect, it } from 'vitest'
import {
  ConnectionLostError,
  connect,
  DatabaseError,
  type Notice,
  QueryAbortedError,
  QueryTimeoutError,
} from '../../src/database/database.ts'
import { FencepostError } from '../../src/errors.ts'
import { within } from '../../src/worker/within.ts'
import { ownDatabase } from '../support/server.ts'

const database = ownDatabase()
const db = () => database.db
beforeAll(async () => {
  await db().query('create table note (id int primary key, text text not null)')
})

const failure = (promise: Promise<unknown>) =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  )

/** How many statements of ours the server is busy with. */
async function busy(pattern: string): Promise<number> {
  const rows = await db().query<{ count: number }>(
    `select count(*) from pg_stat_activity
     where datname = current_database() and state = 'active' and query like $1 and pid <> pg_backend_pid()`,
    [pattern],
  )
  return rows[0]?.count ?? 0
}

async function until(condition: () => Promise<boolean>): Promise<void> {
  await expect.poll(condition, { interval: 20 }).toBe(true)
}

describe('query', () => {
  it('gives plain rows', async () => {
    const rows = await db().query('select 1 as a, null as b union all select 2, null order by a')
    expect(rows).toStrictEqual([
      { a: 1, b: null },
      { a: 2, b: null },
    ])
    expect(await db().query('select')).toEqual([{}])
    expect(await db().query('select 1 where false')).toEqual([])
  })

  it('runs several statements without parameters, and gives the rows of the last', async () => {
    expect(await db().query('select 1 as a; select 2 as b')).toEqual([{ b: 2 }])
    const failed = failure(db().query("insert into note values (100, 'x'); select 1/0"))
    expect(await failed).toMatchObject({ code: '22012' })
    expect(await db().query('select from note where id = 100')).toEqual([])
  })

  it('is called fencepost in pg_stat_activity, or what the URL or the caller says', async () => {
    const name = async (options: { url?: string; applicationName?: string }) => {
      await using other = connect({ url: database.url, ...options })
      return await other.query("select current_setting('application_name') as name")
    }
    expect(await name({})).toEqual([{ name: 'fencepost' }])
    expect(await name({ applicationName: 'mine' })).toEqual([{ name: 'mine' }])
    expect(await name({ url: `${database.url}?application_name=theirs` })).toEqual([
      { name: 'theirs' },
    ])
  })

  it('opens no more connections than max', async () => {
    await using other = connect({ url: database.url, max: 3 })
    const pid = 'select pg_backend_pid() as pid, pg_advisory_xact_lock_shared(2)'
    let pids: Promise<Record<string, unknown>[][]> = Promise.resolve([])
    await db().transaction(async (tx) => {
      await tx.query('select pg_advisory_xact_lock(2)') // none is fast enough to do the work of others
      pids = Promise.all(Array.from({ length: 30 }, () => other.query(pid)))
      await until(async () => (await busy('%_lock_shared(2)%')) === 3)
    })
    expect(new Set((await pids).map(([row]) => row?.pid)).size).toBe(3)
  })

  it('passes notices on', async () => {
    const notices: Notice[] = []
    await using other = connect({ url: database.url, onNotice: (notice) => notices.push(notice) })
    await other.query("do $$ begin raise notice 'look' using hint = 'there'; end $$")
    expect(notices).toMatchObject([{ severity: 'NOTICE', message: 'look', hint: 'there' }])
  })

  it('without prepared statements gives the same', async () => {
    await using other = connect({ url: database.url, prepare: false })
    const twice = () => other.query('select $1::int + 1 as next', [1])
    expect(await twice()).toEqual([{ next: 2 }])
    expect(await twice()).toEqual([{ next: 2 }])
    expect(await other.query('select name from pg_prepared_statements')).toEqual([])
  })

  it('outlives a change of a table under its prepared statements', async () => {
    await using other = connect({ url: database.url, max: 1 })
    await other.query('create table changing (a int)')
    const read = () => other.query('select * from changing where $1', [true])
    expect(await read()).toEqual([])
    await other.query('insert into changing values (1); alter table changing add b text')
    expect(await read()).toEqual([{ a: 1, b: null }])
  })
})

describe('errors', () => {
  it('carry what the server said', async () => {
    await db().query("insert into note values (1, 'one')")
    const error = await failure(db().query("insert into note values ($1, 'again')", [1]))
    expect(error).toBeInstanceOf(DatabaseError)
    expect(error).toMatchObject({
      code: '23505',
      severity: 'ERROR',
      detail: 'Key (id)=(1) already exists.',
      schema: 'public',
      table: 'note',
      constraint: 'note_pkey',
    })
    expect((error as Error).stack).toContain('database.test.ts')
  })

  it('of class JE are of the catalogue', async () => {
    const error = await failure(
      db().query("select fencepost_private.raise_error('JE004', 'no', 'was so', 'do this')"),
    )
    expect(error).toBeInstanceOf(FencepostError)
    expect(error).toMatchObject({
      code: 'JE004',
      name: 'illegal_transition',
      status: 409,
      message: 'no',
      detail: 'was so',
      hint: 'do this',
      cause: expect.any(DatabaseError),
    })
  })

  it('of class JE that this version does not know stay what they are', async () => {
    const text = "do $$ begin raise exception using errcode = 'JE999', message = 'new'; end $$"
    expect(await failure(db().query(text))).toBeInstanceOf(DatabaseError)
  })

  it('tell a dead server from wrong credentials and a missing database', async () => {
    const ask = async (change: (url: URL) => void) => {
      const url = new URL(database.url)
      change(url)
      await using other = connect({ url: url.href })
      return await failure(other.query('select 1'))
    }
    const dead = await ask((url) => {
      url.port = '1'
    })
    expect(dead).toBeInstanceOf(ConnectionLostError)
    expect(dead).toMatchObject({ code: 'ECONNREFUSED', outcome: 'not_sent' })
    const missing = await ask((url) => {
      url.pathname = '/no_such_database'
    })
    expect(missing).toBeInstanceOf(DatabaseError)
    expect(missing).toMatchObject({ code: '3D000' })
    const nobody = await ask((url) => {
      url.username = 'no_such_role'
    })
    expect(nobody).toMatchObject({ code: expect.stringMatching(/^28/) })
    const unknown = await ask((url) => {
      url.hostname = 'no-such-host.invalid'
    })
    expect(unknown).toMatchObject({ name: 'ConnectionLostError', outcome: 'not_sent' })
  })

  it('that are about the statement leave the connection alone, others replace it', async () => {
    await using other = connect({ url: `${database.url}?default_transaction_read_only=on`, max: 1 })
    const pid = async () => (await other.query('select pg_backend_pid() as pid'))[0]?.pid
    const first = await pid()
    // Of class 08, connection exceptions, but no end of this connection.
    const raised = "do $$ begin raise exception using errcode = '08P01'; end $$"
    expect(await failure(other.query(raised))).toMatchObject({ name: 'DatabaseError' })
    expect(await pid()).toBe(first)
    const readOnly = await failure(other.query("insert into note values (99, 'no')"))
    expect(readOnly).toMatchObject({ name: 'DatabaseError', code: '25006' })
    expect(await pid()).not.toBe(first)
  })

  it('name what is wrong with an option', async () => {
    expect(() => connect({ url: database.url, max: 0 })).toThrow('max is 0')
    expect(() => connect({ url: undefined as unknown as string })).toThrow('database URL')
    const timeout = Number.NaN
    expect(await failure(db().query('select 1', [], { timeout }))).toMatchObject({ code: 'JE003' })
  })

  it('name a transaction that query() was made to begin, and forget its connection', async () => {
    await using one = connect({ url: database.url, max: 1 })
    await one.query('create table left_open (n int)')
    for (const text of [
      'begin',
      'start transaction',
      'begin; select 1',
      'begin; insert into left_open values (1)',
      'insert into left_open values (1); begin',
      'begin; commit and chain',
      'begin; select 1; insert into left_open values (1)',
    ]) {
      expect(await failure(one.query(text)), text).toMatchObject({ code: 'JE003' })
    }
    expect(await failure(one.query('begin; select 1 / 0'))).toMatchObject({ code: '22012' })
    expect(await one.query('select n from left_open')).toEqual([])
    // also where the server's words come in many pieces
    expect(await one.query('begin; select repeat($$x$$, 999999); commit')).toHaveLength(1)
    await one.query('drop table left_open')
    expect(await db().query('begin; select 1 as a; commit; select 2 as b')).toEqual([{ b: 2 }])
  })
})

describe('a deadline', () => {
  it('rejects, stops the statement on the server, and leaves a pool that works', async () => {
    const reasons: Error[] = []
    await using other = connect({ url: database.url, max: 2, onRebuild: (r) => reasons.push(r) })
    await other.query('select 1')
    const missed = failure(other.query("select pg_sleep(60), 'slow'", [], { timeout: 200 }))
    expect(await within(missed, 1_000)).toBe(true)
    const error = await missed
    expect(error).toBeInstanceOf(QueryTimeoutError)
    expect(error).toMatchObject({ timeout: 200, outcome: 'unknown' })
    expect(await other.query('select 7 as seven')).toEqual([{ seven: 7 }])
    await until(async () => (await busy('%pg_sleep(60)%')) === 0)
    expect(reasons).toEqual([error])
  })

  it('lets a statement that waits for a lock go, so that it does not take the lock later', async () => {
    await db().transaction(async (tx) => {
      await tx.query('lock table note')
      const error = await failure(db().query('select count(*) from note', [], { timeout: 100 }))
      expect(error).toBeInstanceOf(QueryTimeoutError)
      await until(async () => (await busy('%count(*) from note%')) === 0)
    })
  })

  it('counts the wait for a connection', async () => {
    await using other = connect({ url: database.url, max: 1 })
    const slow = other.query('select pg_sleep(0.6)')
    const error = await failure(other.query('select 1', [], { timeout: 100 }))
    expect(error).toMatchObject({ name: 'QueryTimeoutError', outcome: 'not_sent' })
    expect((error as Error).message).toContain('1 of 1 connections are in use')
    await slow
    expect(await other.query('select 1 as one')).toEqual([{ one: 1 }])
  })

  it("may be the caller's signal", async () => {
    const reason = new Error('enough')
    const control = new AbortController()
    const query = failure(db().query("select pg_sleep(61), 'go'", [], { signal: control.signal }))
    await until(async () => (await busy('%pg_sleep(61)%')) === 1)
    control.abort(reason)
    const error = await query
    expect(error).toBeInstanceOf(QueryAbortedError)
    expect(error).toMatchObject({ outcome: 'unknown', cause: reason })
    await until(async () => (await busy('%pg_sleep(61)%')) === 0)
    const late = await failure(db().query('select 1', [], { signal: control.signal }))
    expect(late).toMatchObject({ name: 'QueryAbortedError', outcome: 'not_sent' })
  })

  it('may be for ever', async () => {
    const timeout = Number.POSITIVE_INFINITY
    expect(await db().query('select 1 as one', [], { timeout })).toEqual([{ one: 1 }])
  })
})

describe('transaction', () => {
  const texts = async () => {
    const rows = await db().query<{ text: string }>(
      'select text from note where id >= 10 order by 1',
    )
    return rows.map(({ text }) => text)
  }

  it('commits what it did and gives what it gave', async () => {
    const result = await db().transaction(async (tx) => {
      await tx.query("insert into note values (10, 'kept')")
      return 'done'
    })
    expect(result).toBe('done')
    expect(await texts()).toEqual(['kept'])
  })

  it('rolls back when it throws', async () => {
    const error = new Error('no')
    const failed = db().transaction(async (tx) => {
      await tx.query("insert into note values (11, 'gone')")
      throw error
    })
    expect(await failure(failed)).toBe(error)
    expect(await texts()).toEqual(['kept'])
  })

  it('fails when a statement failed, even if its error was caught', async () => {
    const failed = db().transaction(async (tx) => {
      await tx.query("insert into note values (12, 'gone')")
      await failure(tx.query('select 1/0'))
    })
    expect(await failure(failed)).toMatchObject({ code: '22012' })
    expect(await texts()).toEqual(['kept'])
  })

  it('goes on after a savepoint', async () => {
    await db().transaction(async (tx) => {
      await tx.query('savepoint before')
      await failure(tx.query('select 1/0'))
      await tx.query('rollback to savepoint before')
      await tx.query("insert into note values (13, 'kept too')")
    })
    expect(await texts()).toEqual(['kept', 'kept too'])
  })

  it('runs statements one after the other, on one connection, read committed', async () => {
    await db().query(
      "do $$ begin execute format('alter database %I set default_transaction_isolation = serializable', current_database()); end $$",
    )
    await using other = connect({ url: database.url })
    const rows = await other.transaction((tx) =>
      Promise.all(
        Array.from({ length: 5 }, () =>
          tx.query(
            "select pg_backend_pid() as pid, current_setting('transaction_isolation') as isolation, pg_sleep(0.01)",
          ),
        ),
      ),
    )
    expect(new Set(rows.map(([row]) => row?.pid)).size).toBe(1)
    expect(rows[0]?.[0]).toMatchObject({ isolation: 'read committed' })
    await db().query(
      "do $$ begin execute format('alter database %I reset default_transaction_isolation', current_database()); end $$",
    )
  })

  it('takes no statement after its end', async () => {
    const tx = await db().transaction(async (each) => each)
    expect(await failure(tx.query('select 1'))).toMatchObject({ code: 'TRANSACTION_OVER' })
  })

  it('that loses its connection had no effect, and says so', async () => {
    const failed = db().transaction(async (tx) => {
      await tx.query("insert into note values (14, 'gone')")
      const [row] = await tx.query<{ pid: number }>('select pg_backend_pid() as pid')
      await db().query('select pg_terminate_backend($1, 5000)', [row?.pid])
      await tx.query('select 1')
    })
    expect(await failure(failed)).toMatchObject({
      name: 'ConnectionLostError',
      outcome: 'not_sent',
    })
    expect(await texts()).toEqual(['kept', 'kept too'])
  })

  it('that misses a deadline is rolled back', async () => {
    const failed = db().transaction(async (tx) => {
      await tx.query("insert into note values (15, 'gone')")
      await tx.query('select pg_sleep(60)', [], { timeout: 100 })
    })
    expect(await failure(failed)).toMatchObject({ name: 'QueryTimeoutError', outcome: 'not_sent' })
    expect(await texts()).toEqual(['kept', 'kept too'])
    await db().query("insert into note values (15, 'free')")
  })
})

describe('close', () => {
  it('lets queries finish, ends the sessions, refuses more', async () => {
    const other = connect({ url: database.url, applicationName: 'closing' })
    let closed = Promise.resolve()
    let slow: Promise<unknown> = closed
    await db().transaction(async (tx) => {
      await tx.query('select pg_advisory_xact_lock(1)')
      slow = other.query('select 1 as done from pg_advisory_xact_lock_shared(1)')
      await until(async () => (await busy('%_lock_shared(1)%')) === 1)
      closed = other.close()
    })
    expect(await slow).toEqual([{ done: 1 }])
    await closed
    const count = () =>
      db().query("select from pg_stat_activity where application_name = 'closing'")
    await until(async () => (await count()).length === 0)
    expect(await failure(other.query('select 1'))).toMatchObject({ code: 'CLOSED' })
    await other.close()
  })
})
