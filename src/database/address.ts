import { readFileSync } from 'node:fs'
import { userInfo } from 'node:os'
import type { ConnectionOptions } from 'node:tls'
import { FencepostError } from '../errors.ts'

/** One server of an address: a port or a Unix socket. */
export type Host = { readonly host: string; readonly port: number } | { readonly path: string }

/** Which of several servers will do, as libpq's `target_session_attrs`. */
export type SessionTarget = (typeof targets)[number]
const targets = ['any', 'primary', 'read-write', 'standby', 'read-only', 'prefer-standby'] as const

/** How TLS is spoken. */
export interface TlsMode {
  /** A server without TLS will do (`sslmode=prefer` or `allow`). */
  readonly optional: boolean
  /** TLS from the first byte (`sslnegotiation=direct`, PostgreSQL 17). */
  readonly direct: boolean
  readonly options: ConnectionOptions
}

/** A database's address, taken apart. */
export interface Address {
  readonly hosts: readonly Host[]
  readonly user: string
  readonly password: string
  readonly database: string
  /** Undefined: no TLS. */
  readonly tls: TlsMode | undefined
  readonly target: SessionTarget
  /** How long one attempt to connect may take, in ms. */
  readonly connectTimeout: number
  /** False when the URL says that a pooler is in between (`pgbouncer=true`). */
  readonly prepare: boolean
  /** What is sent at the start of a session: settings, `application_name`, `options`. */
  readonly startup: Readonly<Record<string, string>>
}

/** Options of libpq and of other drivers that have no meaning here, and that a server would refuse. */
const passedOver = new Set(
  `channel_binding client_encoding connection_limit fallback_application_name gssdelegation gssencmode
   gsslib hostaddr keepalives keepalives_count keepalives_idle keepalives_interval krbsrvname
   load_balance_hosts passfile pool_timeout require_auth requirepeer replication schema service
   sslcertmode sslcompression sslcrl sslcrldir sslpassword sslsni ssl_max_protocol_version
   ssl_min_protocol_version tcp_user_timeout uselibpqcompat`
    .split(/\s+/)
    .filter(Boolean),
)

const URL_FORM = /^postgres(?:ql)?:\/\/(?:([^@/?#]*)@)?([^/?#]*)(?:\/([^?#]*))?(?:\?([^#]*))?$/

/**
 * Reads `postgresql://user:password@host:port,host2:port2/database?sslmode=require&...`. What is
 * missing comes from libpq's environment variables (PGHOST, PGPORT, PGUSER, PGPASSWORD, PGDATABASE,
 * PGSSLMODE, PGTARGETSESSIONATTRS), then from libpq's defaults, except: no TLS unless `sslmode` says so,
 * and of several hosts the primary.
 *
 * @throws FencepostError JE003 when it cannot be read; the message does not contain the password
 */
export function parseAddress(url: string, env: NodeJS.ProcessEnv = process.env): Address {
  const match = typeof url === 'string' ? URL_FORM.exec(url.trim()) : null
  if (match === null) {
    throw invalid('it must look like postgresql://user:password@host:5432/database')
  }
  const [, credentials = '', authority = '', name = '', search = ''] = match
  const query = new Map(new URLSearchParams(search))
  const take = (key: string) => {
    const value = query.get(key)
    query.delete(key)
    return value
  }
  const separator = credentials.indexOf(':')
  const urlUser = separator < 0 ? credentials : credentials.slice(0, separator)
  const urlPassword = separator < 0 ? '' : credentials.slice(separator + 1)
  const user = take('user') || decode(urlUser) || env.PGUSER || userInfo().username
  const hosts = readHosts(take('host') || decode(authority) || env.PGHOST || 'localhost', {
    port: take('port') || env.PGPORT || '5432',
  })
  const tls = readTls(take, env)
  const target = take('target_session_attrs') || env.PGTARGETSESSIONATTRS
  const timeout = Number(take('connect_timeout') || 10)
  const pooled = take('pgbouncer') === 'true'
  const password = take('password') || decode(urlPassword) || env.PGPASSWORD || ''
  const database = take('dbname') || decode(name) || env.PGDATABASE || user
  const startup = [...query].filter(([key]) => !passedOver.has(key))
  return {
    hosts,
    user,
    password,
    database,
    tls,
    target: readTarget(target, hosts.length),
    connectTimeout: timeout > 0 ? timeout * 1000 : Number.POSITIVE_INFINITY,
    prepare: !pooled,
    startup: Object.fromEntries(startup),
  }
}

/** How a host is called in messages. */
export function nameOf(host: Host): string {
  if ('path' in host) return host.path
  return host.host.includes(':') ? `[${host.host}]:${host.port}` : `${host.host}:${host.port}`
}

function readHosts(list: string, defaults: { port: string }): Host[] {
  const ports = defaults.port.split(',')
  return list.split(',').map((entry, index) => {
    const bracketed = /^\[(.+)\](?::(\d+))?$/.exec(entry)
    const plain = /^([^:]*)(?::(\d+))?$/.exec(entry)
    const [, host = '', own] = bracketed ?? plain ?? [entry, entry]
    const port = Number(own ?? ports[index] ?? ports[0])
    if (!Number.isInteger(port) || port < 1 || port > 65535) throw invalid(`port ${own} is no port`)
    if (host.startsWith('/')) return { path: `${host}/.s.PGSQL.${port}` }
    return { host: host || 'localhost', port }
  })
}

function readTarget(value: string | undefined, hosts: number): SessionTarget {
  if (value === undefined) return hosts > 1 ? 'primary' : 'any'
  const found = targets.find((target) => target === value)
  if (found === undefined) {
    throw invalid(`target_session_attrs is ${value}; it can be ${targets.join(', ')}`)
  }
  return found
}

function readTls(
  take: (key: string) => string | undefined,
  env: NodeJS.ProcessEnv,
): TlsMode | undefined {
  const file = (key: string, variable: string) => take(key) ?? env[variable]
  const root = file('sslrootcert', 'PGSSLROOTCERT')
  const cert = file('sslcert', 'PGSSLCERT')
  const key = file('sslkey', 'PGSSLKEY')
  const direct = take('sslnegotiation') === 'direct'
  const given = take('sslmode') ?? take('ssl') ?? env.PGSSLMODE
  const mode = given ?? (root !== undefined || direct ? 'verify-full' : 'disable')
  const files = {
    ...(root === undefined || root === 'system' ? {} : { ca: read(root) }),
    ...(cert === undefined ? {} : { cert: read(cert) }),
    ...(key === undefined ? {} : { key: read(key) }),
  }
  const make = (optional: boolean, options: ConnectionOptions): TlsMode => ({
    optional,
    direct,
    options: { ...files, ...options },
  })
  switch (mode) {
    case 'disable':
    case 'false':
      return undefined
    case 'allow':
    case 'prefer':
      return make(true, { rejectUnauthorized: false })
    case 'require':
    case 'true':
      // As libpq: with a root certificate at hand, `require` verifies the chain.
      return root === undefined
        ? make(false, { rejectUnauthorized: false })
        : make(false, { checkServerIdentity: () => undefined })
    case 'no-verify':
      return make(false, { rejectUnauthorized: false })
    case 'verify-ca':
      return make(false, { checkServerIdentity: () => undefined })
    case 'verify-full':
      return make(false, {})
    default:
      throw invalid(
        `sslmode is ${mode}; it can be disable, prefer, require, verify-ca, verify-full`,
      )
  }
}

function read(path: string): Buffer {
  try {
    return readFileSync(path)
  } catch (cause) {
    throw invalid(`${path} cannot be read`, cause)
  }
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch (cause) {
    throw invalid('a % in it is not followed by two hexadecimal digits', cause)
  }
}

function invalid(why: string, cause?: unknown): FencepostError {
  return new FencepostError('JE003', `the database URL cannot be used: ${why}`, {
    hint: 'postgresql://user:password@host:5432/database?sslmode=require',
    cause,
  })
}
