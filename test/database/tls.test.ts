import { spawnSync } from 'node:child_process'
import { chownSync, copyFileSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { connect } from '../../src/database/database.ts'
import { type EmbeddedServer, startEmbedded } from '../../src/database/embedded.ts'
import { Listener } from '../../src/database/listener.ts'
import { required } from '../support/required.ts'

let directory: string
let server: EmbeddedServer
const file = (name: string) => path.join(directory, name)

beforeEach((context) => {
  required('openssl', context)
})
beforeAll(async () => {
  directory = mkdtempSync(path.join(tmpdir(), 'fencepost-tls-'))
  server = await startEmbedded({
    dataDir: path.join(directory, 'data'),
    settings: { fsync: 'off' },
  })
})
afterAll(async () => {
  await server.stop()
  for (const each of [server.home, directory]) rmSync(each, { recursive: true, force: true })
})

const ask = async (search: string, host = '127.0.0.1') => {
  const url = new URL(`${server.url}${search}`)
  url.hostname = host
  await using db = connect({ url: url.href })
  return await db
    .query('select ssl from pg_stat_ssl where pid = pg_backend_pid()')
    .catch((error) => error)
}

describe('TLS', () => {
  it('is not spoken to a server that has none', async () => {
    expect(await ask('?sslmode=prefer')).toEqual([{ ssl: false }])
    expect(await ask('?sslmode=require')).toMatchObject({ code: 'NO_TLS', outcome: 'not_sent' })
  })

  it('is spoken when the server has it', async () => {
    await enableTls()
    expect(await ask('')).toEqual([{ ssl: false }])
    expect(await ask('?sslmode=prefer')).toEqual([{ ssl: true }])
    expect(await ask('?sslmode=require')).toEqual([{ ssl: true }])
    expect(await ask('?sslmode=require&sslnegotiation=direct')).toEqual([{ ssl: true }])
  })

  it('verifies the certificate, and the name in it', async () => {
    expect(await ask('?sslmode=verify-full')).toMatchObject({
      code: 'DEPTH_ZERO_SELF_SIGNED_CERT',
      outcome: 'not_sent',
    })
    const root = `sslrootcert=${file('server.crt')}`
    expect(await ask(`?sslmode=verify-full&${root}`, 'localhost')).toEqual([{ ssl: true }])
    expect(await ask(`?sslmode=verify-full&${root}`)).toMatchObject({
      code: 'ERR_TLS_CERT_ALTNAME_INVALID',
    })
    expect(await ask(`?sslmode=verify-ca&${root}`)).toEqual([{ ssl: true }])
  })

  it('does not keep a deadline from being met', async () => {
    await using db = connect({ url: `${server.url}?sslmode=require` })
    await expect(db.query('select pg_sleep(60)', [], { timeout: 200 })).rejects.toMatchObject({
      name: 'QueryTimeoutError',
    })
    expect(await db.query('select 1 as one')).toEqual([{ one: 1 }])
    await db.query('select pg_terminate_backend(pg_backend_pid())').catch(() => {})
    expect(await db.query('select 1 as one')).toEqual([{ one: 1 }])
  })

  it('is spoken by listeners too', async () => {
    await using listener = new Listener({ url: `${server.url}?sslmode=require` })
    listener.start()
    await expect.poll(() => listener.state).toBe('ready')
    const rows = await listener.session.query(
      "select bool_and(ssl) as ssl from pg_stat_ssl join pg_stat_activity using (pid) where application_name = 'fencepost listener'",
    )
    expect(rows).toEqual([{ ssl: true }])
  })
})

async function enableTls(): Promise<void> {
  const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost']
  const output = ['-keyout', file('server.key'), '-out', file('server.crt')]
  const made = spawnSync('openssl', [
    'req',
    '-x509',
    '-newkey',
    'rsa:2048',
    '-nodes',
    '-days',
    '2',
    ...subject,
    ...output,
  ])
  expect(made.status, String(made.stderr)).toBe(0)
  await using db = connect({ url: server.url, max: 1 })
  const [row] = await db.query<{ data: string }>("select current_setting('data_directory') as data")
  const data = row?.data ?? ''
  const { uid, gid } = statSync(data)
  for (const name of ['server.key', 'server.crt']) {
    copyFileSync(file(name), path.join(data, name))
    chownSync(path.join(data, name), uid, gid)
  }
  await db.query('alter system set ssl = on')
  await db.query('select pg_reload_conf()')
  await expect.poll(() => ask('?sslmode=prefer')).toEqual([{ ssl: true }])
}
