import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it, type TestContext } from 'vitest'
import { connect } from '../../src/database/database.ts'
import { freePort } from '../../src/database/embedded/ports.ts'
import { Listener } from '../../src/database/listener.ts'
import { required } from '../support/required.ts'
import { type TestDatabase, testDatabase } from '../support/server.ts'

let database: TestDatabase
let directory: string
let bouncer: ChildProcess | undefined
beforeAll(async () => {
  database = await testDatabase({ migrated: false })
  directory = mkdtempSync(path.join(tmpdir(), 'fencepost-bouncer-'))
  chmodSync(directory, 0o755)
})
afterEach(async () => {
  if (bouncer === undefined || bouncer.exitCode !== null) return
  const gone = once(bouncer, 'exit')
  bouncer.kill('SIGINT')
  await gone
})
afterAll(async () => {
  await database.drop()
  rmSync(directory, { recursive: true, force: true })
})

/** Starts PgBouncer before the test's database, with few server connections; gives its URL. */
async function startBouncer(
  mode: 'transaction' | 'session',
  context: TestContext,
): Promise<string> {
  const command = required('pgbouncer', context)
  const { hostname, port, username, password, pathname } = new URL(database.url)
  const own = await freePort()
  const config = path.join(directory, `${mode}.ini`)
  writeFileSync(
    config,
    `[databases]
pooled = host=${hostname} port=${port} dbname=${pathname.slice(1)} user=${username} password=${password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${own}
unix_socket_dir =
auth_type = any
pool_mode = ${mode}
default_pool_size = 4
${process.getuid?.() === 0 ? 'user = nobody' : ''}
`,
  )
  bouncer = spawn(command, [config], { stdio: 'ignore' })
  const url = `postgresql://anyone@127.0.0.1:${own}/pooled`
  await using db = connect({ url, max: 1 })
  await expect
    .poll(() => db.query('select 1 as one').catch(String), { timeout: 10_000 })
    .toEqual([{ one: 1 }])
  return url
}

describe('behind PgBouncer in transaction mode', () => {
  it('queries and transactions work without prepared statements', async (context) => {
    const url = await startBouncer('transaction', context)
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

  it('a statement that misses its deadline is stopped on the server', async (context) => {
    const url = await startBouncer('transaction', context)
    await using db = connect({ url, prepare: false })
    const missed = db.query('select pg_sleep(62)', [], { timeout: 200 })
    await expect(missed).rejects.toMatchObject({ name: 'QueryTimeoutError' })
    const running = () =>
      database.db.query(
        "select from pg_stat_activity where query like '%pg_sleep(62)%' and state = 'active' and pid <> pg_backend_pid()",
      )
    await expect.poll(running, { timeout: 5000 }).toEqual([])
    expect(await db.query('select 1 as one')).toEqual([{ one: 1 }])
  })

  it('a listener finds out that nothing comes through, and is off without a lock left behind', async (context) => {
    const url = await startBouncer('transaction', context)
    await using listener = new Listener({ url })
    const reasons: string[] = []
    listener.on('state', (state, reason) => reasons.push(`${state}: ${reason}`))
    listener.start()
    await expect.poll(() => listener.state, { timeout: 10_000 }).toBe('off')
    expect(reasons.at(-1)).toContain('a pooler is in between')
  })
})

describe('behind PgBouncer in session mode', () => {
  it('a listener works', async (context) => {
    const url = await startBouncer('session', context)
    await using listener = new Listener({ url })
    listener.start()
    await expect.poll(() => listener.state, { timeout: 10_000 }).toBe('ready')
    expect(listener.session.pooled).toBe(true)
    const wake = once(listener, 'wake')
    await database.db.query("select pg_notify('fencepost', '{\"wake\":[5]}')")
    expect(await wake).toEqual([[5]])
  })
})
