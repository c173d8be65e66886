import { describe, expect, it } from 'vitest'
import { parseAddress } from '../../src/database/address.ts'
import { connect } from '../../src/database/database.ts'
import { ownDatabase } from '../support/server.ts'

const read = (url: string, env: NodeJS.ProcessEnv = {}) => parseAddress(url, env)

describe('a database URL', () => {
  it('is taken apart', () => {
    expect(read('postgresql://ada:s%40cret@db.example:6543/app%20one?application_name=x')).toEqual({
      hosts: [{ host: 'db.example', port: 6543 }],
      user: 'ada',
      password: 's@cret',
      database: 'app one',
      tls: undefined,
      target: 'any',
      connectTimeout: 10_000,
      prepare: true,
      startup: { application_name: 'x' },
    })
  })

  it.each<[url: string, hosts: unknown]>([
    ['postgres://localhost', [{ host: 'localhost', port: 5432 }]],
    [
      'postgres://u@h:1,h2,[::1]:3/d',
      [
        { host: 'h', port: 1 },
        { host: 'h2', port: 5432 },
        { host: '::1', port: 3 },
      ],
    ],
    ['postgres:///d?host=/run/pg&port=5433', [{ path: '/run/pg/.s.PGSQL.5433' }]],
    ['postgres://%2Frun%2Fpg/d', [{ path: '/run/pg/.s.PGSQL.5432' }]],
    [
      'postgres:///d?host=a,b&port=1,2',
      [
        { host: 'a', port: 1 },
        { host: 'b', port: 2 },
      ],
    ],
  ])('%s has its hosts', (url, hosts) => {
    expect(read(url).hosts).toEqual(hosts)
  })

  it('takes what it does not say from the environment, as libpq does', () => {
    const env = {
      PGHOST: 'h',
      PGPORT: '7',
      PGUSER: 'u',
      PGPASSWORD: 'p',
      PGDATABASE: 'd',
      PGSSLMODE: 'require',
    }
    expect(read('postgres://', env)).toMatchObject({
      hosts: [{ host: 'h', port: 7 }],
      user: 'u',
      password: 'p',
      database: 'd',
      tls: { optional: false },
    })
    expect(read('postgres://u2:p2@h2:8/d2?sslmode=disable', env)).toMatchObject({
      hosts: [{ host: 'h2', port: 8 }],
      user: 'u2',
      password: 'p2',
      database: 'd2',
      tls: undefined,
    })
    expect(read('postgres://u@h', {})).toMatchObject({ database: 'u', password: '' })
  })

  it('sends settings of the session on, and nothing that only a driver understands', () => {
    const url =
      'postgres://h/d?search_path=app&channel_binding=require&keepalives=1&connect_timeout=3&pgbouncer=true&target_session_attrs=read-write&sslmode=require&options=-c%20jit%3Doff'
    expect(read(url)).toMatchObject({
      startup: { search_path: 'app', options: '-c jit=off' },
      connectTimeout: 3000,
      prepare: false,
      target: 'read-write',
    })
    expect(Object.keys(read(url).startup)).toEqual(['search_path', 'options'])
  })

  it.each<[mode: string, tls: unknown]>([
    ['disable', undefined],
    ['prefer', { optional: true, options: { rejectUnauthorized: false } }],
    ['require', { optional: false, options: { rejectUnauthorized: false } }],
    ['verify-ca', { optional: false, options: { checkServerIdentity: expect.any(Function) } }],
    ['verify-full', { optional: false, options: {} }],
  ])('sslmode=%s', (mode, tls) => {
    const { tls: found } = read(`postgres://h/d?sslmode=${mode}`)
    if (tls === undefined) expect(found).toBeUndefined()
    else expect(found).toEqual({ direct: false, ...(tls as object) })
  })

  it('of several hosts means the primary, unless it says otherwise', () => {
    expect(read('postgres://a,b/d').target).toBe('primary')
    expect(read('postgres://a,b/d?target_session_attrs=any').target).toBe('any')
  })

  it.each<[url: string, message: RegExp]>([
    ['mysql://h/d', /must look like postgresql/],
    ['', /must look like/],
    ['postgres://h:0/d', /port/],
    ['postgres://h:70000/d', /port/],
    ['postgres://u:secret%@h/d', /%/],
    ['postgres://u:secret@h/d?sslmode=maybe', /sslmode is maybe/],
    ['postgres://u:secret@h/d?sslrootcert=/no/such/file', /\/no\/such\/file cannot be read/],
    ['postgres://u:secret@h/d?target_session_attrs=best', /target_session_attrs is best/],
  ])('%s is refused without telling the password', (url, message) => {
    let error: unknown
    try {
      read(url)
    } catch (each) {
      error = each
    }
    expect(error).toMatchObject({ code: 'JE003', message: expect.stringMatching(message) })
    expect(JSON.stringify(error) + String(error)).not.toContain('secret')
  })
})

describe('several hosts', () => {
  const database = ownDatabase({ migrated: false })

  const ask = async (search: string) => {
    const url = new URL(database.url)
    const hosts = `localhost:1,${url.host}`
    const credentials = `${url.username}:${url.password}`
    await using db = connect({
      url: `postgresql://${credentials}@${hosts}${url.pathname}${search}`,
    })
    return await db.query('select pg_is_in_recovery() as standby').catch((error) => error)
  }

  it('are tried in order until one will do', async () => {
    expect(await ask('')).toEqual([{ standby: false }])
    expect(await ask('?target_session_attrs=read-write')).toEqual([{ standby: false }])
    expect(await ask('?target_session_attrs=prefer-standby')).toEqual([{ standby: false }])
  })

  it('of which none will do', async () => {
    expect(await ask('?target_session_attrs=standby')).toMatchObject({
      code: 'WRONG_TARGET',
      outcome: 'not_sent',
    })
    expect(await ask('?target_session_attrs=read-only')).toMatchObject({ code: 'WRONG_TARGET' })
    const readOnly = await ask('?target_session_attrs=read-only&default_transaction_read_only=on')
    expect(readOnly).toEqual([{ standby: false }])
  })
})
