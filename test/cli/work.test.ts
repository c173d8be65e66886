import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { enqueue, getJob, workers } from '../../src/database/engine.ts'
import { ownDatabase, testDatabase } from '../support/server.ts'
import { spawnCli } from './cli.ts'

const fixture = (name: string) => fileURLToPath(new URL(`fixtures/${name}`, import.meta.url))
const JOBS = fixture('jobs.mjs')

const database = ownDatabase()

const start = (...args: string[]) => spawnCli(['work', ...args], { DATABASE_URL: database.url })
const statusOf = async (id: number) => (await getJob(database.db, id))?.status

describe('fencepost work', () => {
  it('works on what the module exports, and logs a line an attempt', async () => {
    const id = await enqueue(database.db, { type: 'cli.double', payload: { n: 21 } })
    const worker = start(JOBS, '--name', 'cli', '--concurrency', '3')
    await worker.says(/cli\.double completed/)
    expect(await getJob(database.db, id)).toMatchObject({
      status: 'completed',
      result: { n: 42 },
      worker: 'cli',
    })
    worker.child.kill('SIGTERM')
    const { code, out } = await worker.ended
    expect(code).toBe(0)
    const lines = out
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect(lines).toContainEqual(
      expect.objectContaining({ job: id, type: 'cli.double', attempt: 1, outcome: 'completed' }),
    )
  })

  it('finishes what runs when it is asked to end, whatever the module left open', async () => {
    const id = await enqueue(database.db, { type: 'cli.slow' })
    const worker = start(JOBS)
    await worker.says(/slow began/)
    worker.child.kill('SIGINT')
    worker.child.kill('SIGINT') // npm passes on what the terminal sent already
    expect(await worker.ended).toMatchObject({ code: 0, signal: null })
    expect(await getJob(database.db, id)).toMatchObject({
      status: 'completed',
      result: { aborted: false },
    })
    const [last] = await workers(database.db)
    expect(last?.status).toBe('stopped')
  })

  it('takes only the type that is wanted', async () => {
    const other = await enqueue(database.db, { type: 'cli.slow' })
    const id = await enqueue(database.db, { type: 'cli.double', payload: { n: 1 } })
    const worker = start(JOBS, '--type', 'cli.double')
    await expect.poll(() => statusOf(id)).toBe('completed')
    worker.child.kill('SIGTERM')
    await worker.ended
    expect(await statusOf(other)).toBe('pending')
  })

  it('ends when the process that started it through a channel is gone', async () => {
    const script = `
      import { spawn } from 'node:child_process'
      const child = spawn(process.execPath, ${JSON.stringify([fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url)), 'work', JOBS, '--name', 'orphan'])}, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
      process.stdout.write(child.pid + '\\n')
    `
    const parent = spawn(process.execPath, ['--input-type=module', '-e', script], {
      env: { ...process.env, DATABASE_URL: database.url },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const statusOfOrphan = async () =>
      (await workers(database.db)).find(({ name }) => name === 'orphan')?.status
    await expect.poll(statusOfOrphan).toBe('active')
    parent.kill('SIGKILL')
    await once(parent, 'exit')
    await expect.poll(statusOfOrphan).toBe('stopped')
  })

  it.each([
    [[fixture('missing.mjs')], 'there is no module'],
    [[fixture('none.mjs')], 'exports no job that can run'],
    [[JOBS, '--type', 'cli.duoble'], 'Did you mean cli.double?'],
    [[], 'an argument is missing'],
  ])('%j is wrong usage', async (args, message) => {
    const { code, err } = await start(...args).ended
    expect(code).toBe(2)
    expect(err).toContain(message)
  })

  it('refuses options of a worker that make no sense', async () => {
    const { code, err } = await start(JOBS, '--concurrency', '0').ended
    expect(code).toBe(1)
    expect(err).toMatch(/^error JE003: .*concurrency/)
  })
})

describe('fencepost serve', () => {
  it('answers until it is asked to end', async () => {
    const server = spawnCli(['serve', '--port', '0'], { DATABASE_URL: database.url })
    const [, url] = await server.says(/"url":"(http:[^"]+)"/)
    expect((await fetch(`${url}/ready`)).status).toBe(200)
    server.child.kill('SIGTERM')
    expect(await server.ended).toMatchObject({ code: 0, err: '' })
  })

  it('keeps house, so that a database which nobody else serves does not wait for a worker', async () => {
    const keptAt = async () => {
      const text = `select max(last_at) as at from fencepost_private.maintain_step`
      const [row] = await database.db.query<{ at: Date | null }>(text)
      return row?.at?.getTime() ?? 0
    }
    const moved = `update fencepost_private.maintain_step set next_at = '-infinity'`
    for (const [args, keeps] of [
      [[], true],
      [['--no-maintain'], false],
    ] as const) {
      await database.db.query(moved)
      const before = await keptAt()
      const server = spawnCli(['serve', '--port', '0', ...args], { DATABASE_URL: database.url })
      await server.says(/"url":"(http:[^"]+)"/)
      if (keeps) await expect.poll(keptAt, { timeout: 10_000 }).toBeGreaterThan(before)
      server.child.kill('SIGTERM')
      expect(await server.ended).toMatchObject({ code: 0, err: '' })
      if (!keeps) expect(await keptAt()).toBe(before)
    }
  })

  it('ends at once although housekeeping is under way', async () => {
    await using own = await testDatabase()
    await own.db.query(`
      create function fencepost_private.endless() returns bigint language sql return (select 1 from pg_sleep(3600));
      update fencepost_private.maintain_step set call = 'endless()', next_at = '-infinity'`)
    const server = spawnCli(['serve', '--port', '0'], { DATABASE_URL: own.url })
    const keeping = `select from pg_stat_activity
      where datname = current_database() and application_name = 'fencepost api' and wait_event = 'PgSleep'`
    await expect.poll(() => own.db.query(keeping)).toHaveLength(1)
    server.child.kill('SIGTERM')
    const { code, out } = await server.ended
    expect(code).toBe(0)
    expect(out).not.toMatch(/failed|fails/)
    await expect.poll(() => own.db.query(keeping)).toEqual([])
  })

  it('says when its port is taken, and does not listen for others by mistake', async () => {
    const first = spawnCli(['serve', '--port', '0'], { DATABASE_URL: database.url })
    const [, port = ''] = await first.says(/"url":"http:[^"]+:(\d+)"/)
    const second = await spawnCli(['serve', '--port', port], { DATABASE_URL: database.url }).ended
    expect(second).toMatchObject({ code: 1, err: expect.stringContaining('EADDRINUSE') })
    const open = await spawnCli(['serve', '--host', '0.0.0.0'], { DATABASE_URL: database.url })
      .ended
    expect(open).toMatchObject({ code: 1, err: expect.stringContaining('JE009') })
  })
})
