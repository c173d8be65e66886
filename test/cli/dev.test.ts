import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { isAlive } from '../../src/database/embedded/processes.ts'
import { cli, spawnCli } from './cli.ts'

/** Rows of the file, and those that contradict themselves. */
const ROWS = 53_940
const REFUSED = 71

let directory: string
let env: Record<string, string>
beforeAll(() => {
  directory = mkdtempSync(path.join(tmpdir(), 'fencepost-dev-'))
  chmodSync(directory, 0o755)
  env = { FENCEPOST_DATA_DIR: directory, PORT: '0', DIAMONDS_PAUSE: '100' }
})
afterAll(() => rmSync(directory, { recursive: true, force: true }))

const sql = async (statement: string) => {
  const { code, out, err } = await cli(['sql', statement, '--json'], { env })
  expect({ code, err }).toEqual({ code: 0, err: '' })
  return JSON.parse(out)
}

/** How many chunks run. */
async function running(url: string): Promise<number> {
  const response = await fetch(`${url}/stats`)
  const { items } = (await response.json()) as { items: { type: string; running: number }[] }
  return items.find(({ type }) => type === 'diamonds.chunk')?.running ?? 0
}

describe('fencepost dev', { timeout: 120_000 }, () => {
  it('loads a data set, through the death of its worker, and stops', async () => {
    const dev = spawnCli(['dev'], env)
    const [, url = ''] = await dev.says(/API\s+(http:\/\/127\.0\.0\.1:\d+)\/docs/)
    expect(await (await fetch(`${url}/ready`)).json()).toEqual({ status: 'ready' })
    const [, pid = ''] = await dev.says(/kill -9 (\d+)/)
    await expect.poll(() => running(url), { timeout: 30_000 }).toBeGreaterThan(0)

    process.kill(Number(pid), 'SIGKILL')
    await dev.says(/The worker died \(SIGKILL\) with [1-9]/)
    await dev.says(/Another worker was started/)
    await dev.says(/A workflow waits for you/)

    const again = await cli(['dev'], { env })
    expect(again.code).toBe(2)
    expect(again.err).toContain('runs already')

    dev.child.kill('SIGINT')
    expect(await dev.ended).toMatchObject({ code: 0, signal: null, err: '' })
    expect(existsSync(path.join(directory, 'dev.json'))).toBe(false)
    await expect(fetch(`${url}/ready`)).rejects.toThrow()
  })

  it('goes on where it was: each row once, the bad ones dead-lettered with reasons', async () => {
    const dev = spawnCli(['dev'], { ...env, DIAMONDS_PAUSE: '0' })
    await dev.says(/All is loaded/)
    const [loaded] = await sql(
      'select count(*) as rows, count(distinct row) as different from example.diamond',
    )
    expect(loaded).toEqual({ rows: ROWS - REFUSED, different: ROWS - REFUSED })
    const letters = await sql('select final_error from fencepost.dead_letter')
    expect(letters).toHaveLength(REFUSED)
    for (const { final_error } of letters) expect(final_error).toMatch(/^row \d+: (depth|[xyz]): /)
    const outcomes = await sql(
      `select a.outcome, count(*) from fencepost.attempts a join fencepost.jobs j on j.id = a.job_id where j.type like 'diamonds.%' group by 1`,
    )
    expect(outcomes).toContainEqual({ outcome: 'completed', count: 271 })
    const interrupted = outcomes.map(({ outcome }: { outcome: string }) => outcome)
    expect(interrupted, JSON.stringify(outcomes)).toContain('lease_expired')
    expect(await sql('select * from fencepost.check_invariants()')).toEqual([])

    // the workflow is the one of the start before, and goes on when somebody approves
    const [, approval = ''] = await dev.says(/approval approve (\d+)/)
    expect((await cli(['approval', 'approve', approval], { env })).code).toBe(0)
    const settled = () => sql('select status from fencepost.runs')
    await expect.poll(settled).toEqual([{ status: 'completed' }])
    dev.child.kill('SIGTERM')
    expect(await dev.ended).toMatchObject({ code: 0, err: '' })
  })

  it('takes the next port when the wanted one is taken, and leaves the example out', async () => {
    const taken = createServer()
    await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve))
    const { port } = taken.address() as { port: number }
    const dev = spawnCli(['dev', '--no-example'], { ...env, PORT: String(port) })
    const [, answered] = await dev.says(/API\s+http:\/\/127\.0\.0\.1:(\d+)/)
    expect(Number(answered)).toBeGreaterThan(port)
    dev.child.kill('SIGTERM')
    expect(await dev.ended).toMatchObject({ code: 0 })
    taken.close()
  })

  it('starts its PostgreSQL again when that dies, on the same port', async () => {
    const dev = spawnCli(['dev', '--no-example'], env)
    const [, url = ''] = await dev.says(/API\s+(http:\/\/127\.0\.0\.1:\d+)\/docs/)
    const server = async () => {
      const [row] = await sql(
        "select current_setting('data_directory') as directory, current_setting('port') as port",
      )
      const [pid = ''] = readFileSync(path.join(row.directory, 'postmaster.pid'), 'utf8').split(
        '\n',
      )
      return { pid: Number(pid), port: row.port }
    }
    const first = await server()
    process.kill(first.pid, 'SIGKILL')
    await dev.says(/PostgreSQL has died/)
    const [, pid = ''] = await dev.says(/PostgreSQL runs again \(process (\d+)\)/)
    expect(await server()).toEqual({ pid: Number(pid), port: first.port })
    await expect.poll(async () => (await fetch(`${url}/ready`)).status).toBe(200)
    dev.child.kill('SIGINT')
    expect(await dev.ended).toMatchObject({ code: 0, signal: null, err: '' })
    expect(isAlive(Number(pid))).toBe(false)
  })

  it('is clear about a port that is none, and about a database that is not there', async () => {
    const port = await cli(['dev'], { env: { ...env, PORT: 'http' } })
    expect(port).toMatchObject({ code: 2, err: expect.stringContaining('"http" is not a port') })
    const dead = await cli(['dev'], { env: { ...env, DATABASE_URL: 'postgresql://127.0.0.1:1/x' } })
    expect(dead).toMatchObject({ code: 1, err: expect.stringContaining('ECONNREFUSED') })
  })
})
