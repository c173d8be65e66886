import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { guardOf } from '../../src/database/embedded/guard.ts'
import { livePostmaster } from '../../src/database/embedded/postmaster.ts'
import { ended, isAlive } from '../../src/database/embedded/processes.ts'
import {
  type EmbeddedOptions,
  type EmbeddedServer,
  EmbeddedServerError,
  startEmbedded,
} from '../../src/database/embedded.ts'

// One cluster for the file: to create one takes longer than all the rest.
let dataDir: string
let running: EmbeddedServer[] = []

beforeAll(() => {
  dataDir = mkdtempSync(path.join(tmpdir(), 'fencepost-embedded-'))
  chmodSync(dataDir, 0o755)
})
afterEach(async () => {
  for (const server of running) await server.stop()
  running = []
})
afterAll(() => rmSync(dataDir, { recursive: true, force: true }))

async function start(options: Partial<EmbeddedOptions> = {}): Promise<EmbeddedServer> {
  const server = await startEmbedded({ dataDir, settings: { fsync: 'off' }, ...options })
  running.push(server)
  return server
}

async function ask(server: EmbeddedServer, text: string): Promise<unknown> {
  const client = new pg.Client({ connectionString: server.url })
  client.on('error', () => {})
  await client.connect()
  try {
    const { rows } = await client.query({ text, rowMode: 'array' })
    return rows[0]?.[0]
  } finally {
    await client.end()
  }
}

describe('the embedded server', () => {
  it('speaks UTF-8 with locale C whatever the environment says, and asks for the password', async () => {
    const server = await start()
    expect(await ask(server, 'show server_encoding')).toBe('UTF8')
    expect(
      await ask(server, 'select datcollate from pg_database where datname = current_database()'),
    ).toBe('C')
    const stranger = new pg.Client({ connectionString: server.url.replace(/:[^:@]+@/, ':wrong@') })
    await expect(stranger.connect()).rejects.toMatchObject({ code: '28P01' })
  })

  it('keeps its data and its port over a stop', async () => {
    const first = await start()
    await ask(first, 'create table kept as select 1 as n')
    const { port } = first
    await first.stop()
    await expect(ask(first, 'select 1')).rejects.toThrow('not running')
    const second = await start()
    expect(second.port).toBe(port)
    expect(await ask(second, 'select n from kept')).toBe(1)
    await ask(second, 'drop table kept')
  })

  it('comes back on the same port after every process of it was killed', async () => {
    const server = await start()
    const { pid, port } = server
    await server.kill()
    expect(isAlive(pid)).toBe(false)
    await server.restart()
    expect(server.port).toBe(port)
    expect(await ask(server, 'select 1')).toBe(1)
  })

  it('takes another port when somebody else has the remembered one', async () => {
    const { port } = await start()
    await running.pop()?.stop()
    const other = createServer().listen(port, '127.0.0.1')
    await once(other, 'listening')
    onTestFinished(() => void other.close())
    expect((await start()).port).not.toBe(port)
    await running.pop()?.stop()
    await expect(start({ port })).rejects.toThrow(`Port ${port} of 127.0.0.1 is taken`)
  })

  it('is not stopped by a second handle in a live process', async () => {
    const first = await start()
    const second = await start()
    expect(second.pid).toBe(first.pid)
    await second.stop()
    expect(await ask(first, 'select 1')).toBe(1)
  })
})

describe('a file that a crash left behind', () => {
  it.each([
    ['of a process that is gone', '2147483646'],
    ['of another program, which has its number now', String(process.pid)],
  ])('%s is removed', async (_, pid) => {
    const server = await start()
    const cluster = String(await ask(server, 'show data_directory'))
    await server.stop()
    const file = path.join(cluster, 'postmaster.pid')
    writeFileSync(file, `${pid}\n${cluster}\n1\n5432\n\n127.0.0.1\n1 1\nready\n`)
    expect(await ask(await start(), 'select 1')).toBe(1)
  })
})

describe('a server whose owner was killed', () => {
  // A process of its own runs the build: Node 20 reads no TypeScript.
  const script = `
    import { startEmbedded } from '${new URL('../../dist/database/embedded.js', import.meta.url).href}'
    const server = await startEmbedded(JSON.parse(process.argv[1]))
    console.log(server.pid)
    setInterval(() => {}, 1000)
  `
  async function killedOwner(tied: boolean): Promise<number> {
    const options = JSON.stringify({ dataDir, tied, settings: { fsync: 'off' } })
    const owner = spawn(process.execPath, ['--input-type=module', '--eval', script, options], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const ended = once(owner, 'exit')
    const [line] = await Promise.race([once(owner.stdout, 'data'), ended])
    owner.kill('SIGKILL')
    await ended
    return Number(line)
  }

  it('ends with it when tied', async () => {
    const pid = await killedOwner(true)
    expect(await ended([pid], 30_000)).toBe(true)
  })

  it('is adopted, and then stopped, when not tied', async () => {
    const pid = await killedOwner(false)
    expect(isAlive(pid)).toBe(true)
    const server = await start()
    expect(server.pid).toBe(pid)
    expect(await ask(server, 'select 1')).toBe(1)
    await server.stop()
    expect(isAlive(pid)).toBe(false)
  })
})

describe('a server whose data was removed', () => {
  async function bereft(): Promise<{ server: EmbeddedServer; cluster: string }> {
    const server = await start({ dataDir: path.join(dataDir, 'removed') })
    const cluster = String(await ask(server, 'show data_directory'))
    onTestFinished(() => server.kill().catch(() => {}))
    rmSync(server.home, { recursive: true, force: true })
    expect(existsSync(cluster)).toBe(false)
    return { server, cluster }
  }

  it('is stopped', async () => {
    const { server } = await bereft()
    const { pid } = server
    await server.stop()
    expect(isAlive(pid)).toBe(false)
  })

  it('is ended by its guard', async () => {
    const { server, cluster } = await bereft()
    const { pid } = server
    const guard = guardOf(pid, cluster)
    guard.stdin?.end()
    // within a minute a server finds out by itself
    expect(await ended([pid], 10_000)).toBe(true)
  })
})

describe('the guard of a server', () => {
  it('leaves another program alone that has its number now', async () => {
    const other = spawn('sleep', ['600'], { stdio: 'ignore' })
    onTestFinished(() => void other.kill('SIGKILL'))
    const cluster = mkdtempSync(path.join(dataDir, 'guarded-'))
    for (const named of [other.pid, 2_147_483_646]) {
      writeFileSync(path.join(cluster, 'postmaster.pid'), `${named}\n${cluster}\n`)
      const guard = guardOf(other.pid as number, cluster)
      const gone = once(guard, 'exit')
      guard.stdin?.end()
      await gone
      expect(other.signalCode).toBeNull()
      expect(isAlive(other.pid as number)).toBe(true)
    }
  })
})

describe('two starts at once on an empty directory', () => {
  it('share one server', async () => {
    const empty = path.join(dataDir, 'both')
    const both = await Promise.all([start({ dataDir: empty }), start({ dataDir: empty })])
    expect(both[0]?.pid).toBe(both[1]?.pid)
    expect(both[0]?.url).toBe(both[1]?.url)
  })
})

describe('a directory that cannot be used', () => {
  it('gets one sentence', async () => {
    const file = path.join(dataDir, 'file')
    writeFileSync(file, '')
    const refusal = startEmbedded({ dataDir: path.join(file, 'below') })
    await expect(refusal).rejects.toThrow(EmbeddedServerError)
    await expect(refusal).rejects.toThrow(/cannot be written \(ENOTDIR\): name another one/)
  })
})

describe('root, with a directory that others may not enter', () => {
  it('has the data elsewhere, and says so', async (context) => {
    if (process.getuid?.() !== 0) context.skip('only root runs its server as another account')
    const closed = path.join(dataDir, 'closed')
    mkdirSync(closed, { mode: 0o700 })
    const lines: string[] = []
    const server = await start({
      dataDir: path.join(closed, 'data'),
      log: (line) => lines.push(line),
    })
    onTestFinished(() => rmSync(server.home, { recursive: true, force: true }))
    expect(server.home.startsWith(closed)).toBe(false)
    expect(lines.join('\n')).toContain(server.home)
    const cluster = path.join(server.home, 'postgres', server.version.split('.')[0] ?? '')
    expect(existsSync(cluster)).toBe(true)
    expect(livePostmaster(cluster)?.pid).toBe(server.pid)
  })
})
