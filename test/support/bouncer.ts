import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { expect } from 'vitest'
import { connect } from '../../src/database/database.ts'
import { freePort } from '../../src/database/embedded/ports.ts'

/** A PgBouncer before a database, with four connections to the server. */
export interface Bouncer extends AsyncDisposable {
  /** The database, through the pooler. */
  readonly url: string
  /** Ends it at once, and starts it anew on the same port. */
  restart(): Promise<void>
}

/** Starts PgBouncer, which `required('pgbouncer', …)` has found. */
export async function startBouncer(
  command: string,
  target: string,
  mode: 'transaction' | 'session',
): Promise<Bouncer> {
  const directory = mkdtempSync(path.join(tmpdir(), 'fencepost-bouncer-'))
  chmodSync(directory, 0o755) // root's pooler runs as another account
  const { hostname, port, username, password, pathname } = new URL(target)
  const own = await freePort()
  const config = path.join(directory, 'pgbouncer.ini')
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
  const url = `postgresql://anyone@127.0.0.1:${own}/pooled`
  let child: ChildProcess | undefined

  async function start(): Promise<void> {
    child = spawn(command, [config], { stdio: 'ignore' })
    await using db = connect({ url, max: 1 })
    await expect.poll(() => db.query('select 1 as one').catch(String)).toEqual([{ one: 1 }])
  }
  async function stop(): Promise<void> {
    if (child === undefined || child.exitCode !== null) return
    const gone = once(child, 'exit')
    child.kill('SIGTERM')
    await gone
  }

  await start()
  return {
    url,
    async restart() {
      await stop()
      await start()
    },
    async [Symbol.asyncDispose]() {
      await stop()
      rmSync(directory, { recursive: true, force: true })
    },
  }
}
