import { describe, expect, it } from 'vitest'
import { claim, enqueue, registerWorker } from '../../src/database/engine.ts'
import { ownDatabase } from '../support/server.ts'
import { cli } from './cli.ts'

const database = ownDatabase()

const run = (...args: string[]) => cli(args, { env: { DATABASE_URL: database.url } })

/** Runs a command that goes well and gives back what it says. */
async function said(...args: string[]): Promise<string> {
  const { code, out, err } = await run(...args)
  expect({ code, err }).toEqual({ code: 0, err: '' })
  return out
}

async function json(...args: string[]) {
  return JSON.parse(await said(...args, '--json'))
}

/** Runs a command that is refused and gives back why. */
async function refused(code: number, ...args: string[]): Promise<string> {
  const outcome = await run(...args)
  expect(outcome).toMatchObject({ code, out: '' })
  return outcome.err
}

describe('type', () => {
  it('is configured, shown and listed', async () => {
    expect(await said('type', 'list')).toMatch(/^No types/)
    const set = ['--max-running', '20', '--timeout', '30 seconds', '--accept', 'false']
    expect(await json('type', 'configure', 'mail', ...set)).toMatchObject({
      type: 'mail',
      max_running: 20,
      timeout: '00:00:30',
      accept: false,
      overridden: ['accept', 'max_running', 'timeout'],
    })
    const back = await said('type', 'configure', 'mail', '--reset', 'accept,timeout')
    expect(back).toMatch(/accept +true[\s\S]*overridden +max_running/)
    expect(await json('type', 'get', 'mail')).toMatchObject({ max_running: 20, timeout: null })
    expect(await json('type', 'configure', 'mail', '--max-running', '0')).toMatchObject({
      max_running: null,
    })
    expect(await said('type', 'list')).toMatch(/mail +false +true/)
  })

  it('is paused and goes on', async () => {
    expect(await said('type', 'pause', 'halt', '--reason', 'fire')).toBe('halt is paused\n')
    expect(await json('type', 'get', 'halt')).toMatchObject({ paused: true })
    expect(await said('type', 'resume', 'halt')).toBe('halt goes on\n')
    expect(await json('type', 'get', 'halt')).toMatchObject({ paused: false })
  })

  it('refuses what is no setting', async () => {
    expect(await refused(1, 'type', 'get', 'nobody')).toContain('JE002')
    const configure = ['type', 'configure', 'mail']
    expect(await refused(2, ...configure)).toContain('what should be set?')
    expect(await refused(1, ...configure, '--backoff-jitter', '7')).toContain('JE003')
    expect(await refused(2, ...configure, '--max-running', 'many')).toContain('a whole number')
    expect(await refused(2, ...configure, '--backoff-factor', 'x')).toContain('must be a number')
    expect(await refused(2, ...configure, '--accept', 'maybe')).toContain('true or false')
    expect(await refused(1, ...configure, '--reset', 'nothing')).toContain('no setting')
    expect(await refused(1, 'type', 'pause', 'bad type')).toContain('JE003')
  })
})

describe('worker', () => {
  it('is listed, shown with what it holds, and drained', async () => {
    const { db } = database
    expect(await said('worker', 'list', '--status', 'lost')).toBe('No such workers.\n')
    const idle = String(await registerWorker(db, { name: 'idle' }))
    const job = await enqueue(db, { type: 'held' })
    await claim(db, { worker: 'busy', types: ['held'] })
    const [busy, ...others] = await json('worker', 'list')
    expect(busy).toMatchObject({ name: 'busy', status: 'active', active_jobs: 1 })
    expect(others).toMatchObject([{ id: Number(idle) }])
    expect(await json('worker', 'list', '--limit', '1', '--before', String(busy.id))).toEqual(
      others,
    )
    const shown = await json('worker', 'get', String(busy.id))
    expect(shown).toMatchObject({ name: 'busy', leases: [{ job_id: Number(job), type: 'held' }] })
    expect(await said('worker', 'get', String(busy.id))).toMatch(/leases\njob_id +type/)
    expect(await said('worker', 'drain', idle)).toBe(`worker ${idle} is draining\n`)
    expect(await said('worker', 'list', '--status', 'draining')).toContain('idle')
  })

  it('that does not exist is refused', async () => {
    expect(await refused(1, 'worker', 'get', '999999')).toContain('JE002')
    expect(await refused(1, 'worker', 'drain', '999999')).toContain('JE002')
    expect(await refused(2, 'worker', 'get', 'busy')).toContain('must be a whole number')
  })
})
