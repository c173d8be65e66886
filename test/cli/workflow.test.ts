import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { claim, getRun, listTasks, publishWorkflow, startRun } from '../../src/database/engine.ts'
import { ownDatabase } from '../support/server.ts'
import { workOff } from '../support/work.ts'
import { cli, type Surroundings } from './cli.ts'

const database = ownDatabase()
let directory: string
beforeAll(async () => {
  directory = mkdtempSync(path.join(tmpdir(), 'fencepost-cli-'))
  await publishWorkflow(database.db, 'diamond', diamond)
})
afterAll(async () => {
  rmSync(directory, { recursive: true })
})

const diamond = {
  tasks: {
    a: { type: 't.a' },
    b: { type: 't.b', after: ['a'] },
    c: { type: 't.c', after: ['a'] },
    d: { type: 't.d', after: ['b', 'c'] },
  },
}
const good = { 't.a': () => 1, 't.b': () => 2, 't.c': () => 3, 't.d': () => 4 }

const run = (args: readonly string[], more: Surroundings = {}) =>
  cli(args, { ...more, env: { DATABASE_URL: database.url, ...more.env } })

async function said(args: readonly string[], more: Surroundings = {}): Promise<string> {
  const { code, out, err } = await run(args, more)
  expect({ code, err }).toEqual({ code: 0, err: '' })
  return out
}

async function json(args: readonly string[], more: Surroundings = {}) {
  return JSON.parse(await said([...args, '--json'], more))
}

async function refused(args: readonly string[]): Promise<string> {
  const { code, out, err } = await run(args)
  expect({ code, out }).toEqual({ code: 1, out: '' })
  return err
}

function file(content: string): string {
  const name = path.join(directory, 'definition.json')
  writeFileSync(name, content)
  return name
}

async function start(...args: string[]): Promise<string> {
  return (await said(['run', 'start', ...args])).trim()
}

describe('workflow', () => {
  it('publishes from a file or standard input, lists, shows and compares', async () => {
    const one = file(JSON.stringify(diamond))
    expect(await said(['workflow', 'publish', 'shop', one])).toBe('1\n')
    expect(await said(['workflow', 'publish', 'shop', one])).toBe('1\n')
    const { d: _, ...tasks } = diamond.tasks
    const stdin = JSON.stringify({ tasks })
    expect(await json(['workflow', 'publish', 'shop', '-'], { stdin })).toEqual({
      workflow: 'shop',
      version: 2,
    })
    expect(await said(['workflow', 'list'])).toMatch(/shop +2 +3/)
    expect(await json(['workflow', 'list', '--after', 'diamond', '--limit', '1'])).toMatchObject([
      { name: 'shop', latest_version: 2 },
    ])
    expect(await json(['workflow', 'get', 'shop', '--version', '1'])).toMatchObject({
      name: 'shop',
      version: 1,
      definition: diamond,
      versions: [{ version: 2 }, { version: 1 }],
    })
    expect(await said(['workflow', 'get', 'shop'])).toContain('definition of version 2')
    expect(await said(['workflow', 'diff', 'shop', '1', '2'])).toMatch(/d +type +t\.d/)
    expect(await said(['workflow', 'diff', 'shop', '1', '1'])).toBe('They are equal.\n')
  })

  it('configures how long finished runs are kept', async () => {
    const args = ['workflow', 'configure', 'diamond', '--keep-finished']
    expect(await json([...args, '2d'])).toMatchObject({
      name: 'diamond',
      keep_finished: '2 days',
    })
    expect(await said([...args, '1 day'])).toMatch(/keep_finished +1 day/)
    expect(await refused([...args, '-1 day'])).toContain('JE003')
    expect(
      await refused(['workflow', 'configure', 'nothing.such', '--keep-finished', '1d']),
    ).toContain('JE002')
  })

  it('says what is wrong with a definition, and where', async () => {
    const name = file('{"tasks": {"a": {"type": "a", "aftr": []}}}')
    const err = await refused(['workflow', 'publish', 'bad', name])
    expect(err).toContain("JE008: unknown key 'aftr'")
    expect(err).toContain('at tasks.a')
    expect(err).toContain("did you mean 'after'")
    const missing = ['workflow', 'get', 'bad']
    expect(await refused(missing)).toContain('JE002')
    expect(await refused(['workflow', 'get', 'diamond', '--version', '9'])).toContain('JE002')
  })

  it.each([
    [['workflow', 'publish', 'x.json'], 'an argument is missing'],
    [['workflow', 'publish', 'x', '/nonexistent.json'], 'cannot be read: ENOENT'],
    [['workflow', 'diff', 'x', 'one', '2'], '<from> must be a whole number'],
    [['run', 'start', 'x', '{'], 'the input is not JSON'],
    [['run', 'migrate', '1', 'two'], '<version> must be a whole number'],
  ])('%j is wrong usage', async (args, message) => {
    const { code, err } = await run(args)
    expect(code).toBe(2)
    expect(err).toContain(message)
  })

  it('takes no file that is not JSON', async () => {
    const { code, err } = await run(['workflow', 'publish', 'x', file('{')])
    expect({ code, err }).toMatchObject({ code: 2, err: expect.stringContaining('is not JSON') })
  })
})

describe('run', () => {
  it('starts, shows and lists', async () => {
    const id = await start('diamond', '{"n": 1}', '--tags', 'red,blue', '--priority', '8')
    expect(await json(['run', 'get', id])).toMatchObject({
      id: Number(id),
      workflow: 'diamond',
      input: { n: 1 },
      tags: ['red', 'blue'],
      priority: 8,
      tasks: [{ name: 'a', status: 'queued' }, {}, {}, { name: 'd', after: ['b', 'c'] }],
    })
    expect(await said(['run', 'get', id])).toMatch(/a +job +queued/)
    const keyed = ['diamond', '-', '--idempotency-key', 'k', '--version', '1', '--tenant', 'acme']
    const first = (await said(['run', 'start', ...keyed], { stdin: '{}' })).trim()
    expect(await json(['run', 'start', ...keyed], { stdin: '{}' })).toEqual({ id: Number(first) })
    expect(await json(['run', 'list', '--tenant', 'acme'])).toMatchObject([{ id: Number(first) }])
    expect(await said(['run', 'list', '--tag', 'red'])).toMatch(new RegExp(`${id} +diamond`))
    expect(await said(['run', 'list', '--workflow', 'never'])).toBe('No such runs.\n')
    expect(await refused(['run', 'list', '--status', 'done'])).toContain('JE003')
    expect(await refused(['run', 'get', '999999999'])).toContain('JE002')
    await workOff(database.db, good)
  })

  it('is paused, resumed and cancelled', async () => {
    const id = await start('diamond')
    expect(await said(['run', 'pause', id, '--reason', 'fire'])).toBe(`run ${id} is held\n`)
    expect(await claim(database.db, { worker: 'w', types: ['t.a'] })).toEqual([])
    expect(await said(['run', 'explain', id, 'a'])).toMatch(/paused[\s\S]*fire[\s\S]*resume_run/)
    expect(await said(['run', 'resume', id])).toBe(`run ${id} goes on\n`)
    expect(await refused(['run', 'resume', id])).toContain('JE004')
    expect(await json(['run', 'explain', id, 'b'])).toMatchObject([{ reason: 'it waits for a' }])
    expect(await refused(['run', 'explain', id, 'z'])).toContain('JE002')
    expect(await json(['run', 'cancel', id, '--reason', 'enough'])).toEqual({ id: Number(id) })
    expect(await getRun(database.db, Number(id))).toMatchObject({
      status: 'cancelled',
      reason: 'enough',
    })
  })

  it('is retried, its tasks replayed, and it is restarted from a task', async () => {
    const id = await start('diamond')
    const bad = { ...good, 't.b': () => new Error('no b') }
    await workOff(database.db, bad)
    expect(await said(['run', 'retry', id])).toBe(`run ${id}: 1 tried again\n`)
    await workOff(database.db, bad)
    const [task] = await listTasks(database.db, Number(id), { status: 'failed' })
    expect(await said(['task', 'replay', `${task?.id}`])).toBe(`task ${task?.id} is tried again\n`)
    await workOff(database.db, good)
    expect((await json(['run', 'get', id])).status).toBe('completed')
    expect(await refused(['run', 'retry', id])).toContain('JE004')
    expect(await refused(['task', 'replay', `${task?.id}`])).toContain('JE004')
    const again = (await said(['run', 'restart', id, '--from', 'b'])).trim()
    expect((await json(['run', 'get', again])).restarted_from).toBe(Number(id))
    expect(await workOff(database.db, good)).toEqual(['t.b', 't.d'])
    expect(await refused(['run', 'restart', id, '--from', 'z'])).toContain('JE003')
  })

  it('takes signals, and another version', async () => {
    const tasks = { paid: { kind: 'signal', signal: 'paid' } }
    await publishWorkflow(database.db, 'paying', { tasks })
    const id = await start('paying')
    const more = { tasks: { ...tasks, next: { type: 'paying.next', after: ['paid'] } } }
    await publishWorkflow(database.db, 'paying', more)
    const dry = await said(['run', 'migrate', id, '2', '--dry-run'])
    expect(dry).toMatch(/would take version 2[\s\S]*next +added/)
    expect(await json(['run', 'migrate', id, '2'])).toMatchObject({
      dry_run: false,
      changes: [{ task: 'next', change: 'added' }],
    })
    expect(await said(['run', 'signal', id, 'paid', '{"ok": 1}'])).toMatch(/^signal \d+ is stored/)
    expect(await said(['run', 'get', id])).toMatch(/signals[\s\S]*\{"ok":1\}/)
    expect(await workOff(database.db, { 'paying.next': () => 1 })).toEqual(['paying.next'])
    expect(await refused(['run', 'signal', id, 'paid'])).toContain('JE004')
  })
})

describe('approval', () => {
  it('is listed and decided once', async () => {
    const tasks = { ask: { kind: 'approval', reason: 'Is it right?', on_reject: 'continue' } }
    await publishWorkflow(database.db, 'asking', { tasks })
    const [yes, no] = [await start('asking'), await start('asking')]
    expect(await said(['approval', 'list'])).toMatch(new RegExp(`${no} +asking +ask +pending`))
    const [one] = await json(['approval', 'list', '--run-id', yes])
    const args = ['approval', 'approve', `${one.id}`, '--by', 'ada', '--data', '{"limit": 3}']
    expect(await said(args)).toBe(`approval ${one.id} is approved\n`)
    const [two] = await json(['approval', 'list', '--run-id', no])
    const reject = ['approval', 'reject', `${two.id}`, '--comment', 'no']
    expect(await json(reject)).toEqual({ id: two.id, status: 'rejected' })
    expect(await refused(reject)).toContain('JE004')
    expect((await getRun(database.db, Number(yes)))?.output).toMatchObject({
      ask: { approved: true, decided_by: 'ada', data: { limit: 3 } },
    })
    expect(await said(['approval', 'list', '--status', 'expired'])).toBe('No such approvals.\n')
  })

  it('is put before a task as a gate', async () => {
    const id = Number(await start('diamond'))
    const [task] = await listTasks(database.db, id)
    const gate = ['task', 'gate', `${task?.id}`, '--reason', 'friday', '--expires-after', '1 day']
    const approval = (await said(gate)).trim()
    expect(await claim(database.db, { worker: 'w', types: ['t.a'] })).toEqual([])
    expect(await refused(gate)).toContain('JE004')
    await said(['approval', 'approve', approval])
    await workOff(database.db, good)
    expect((await getRun(database.db, id))?.status).toBe('completed')
  })
})

describe('run watch', () => {
  it('tells each change in a line, until the run ends', async () => {
    const id = await start('diamond')
    const watching = run(['run', 'watch', id])
    await workOff(database.db, good)
    const { code, out } = await watching
    expect(code).toBe(0)
    expect(out).toMatch(/^\d{4}-\S+Z /)
    expect(out).toMatch(/ {3}d completed\n/)
    expect(out).toMatch(new RegExp(`run ${id} completed: 4 of 4 tasks ended well\n$`))
  })

  it('tells each change as JSON, and how a run failed', async () => {
    const id = await start('diamond')
    await workOff(database.db, { ...good, 't.b': () => new Error('no b') })
    const { code, out } = await run(['run', 'watch', id, '--json'])
    expect(code).toBe(1)
    const lines = out
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect(lines).toContainEqual({
      at: expect.any(String),
      run: Number(id),
      task: 'b',
      status: 'failed',
      error: 'no b',
    })
    expect(lines.at(-1)).toMatchObject({
      run: Number(id),
      status: 'failed',
      ended: 2,
      total: 4,
      failed: 1,
    })
  })

  it('draws the graph in a terminal', async () => {
    const id = await start('diamond')
    await workOff(database.db, { 't.a': () => 1 })
    const watching = run(['run', 'watch', id], { width: 60, env: { NO_COLOR: '1' } })
    await workOff(database.db, good)
    const { code, out } = await watching
    expect(code).toBe(0)
    const last = out.slice(out.lastIndexOf('run '))
    expect(last).toMatch(
      new RegExp(`^run ${id} · diamond 1 · completed · 4 of 4 tasks ended well · .+
\n {2}✔ a\n {2}↓\n {2}✔ b {3}✔ c\n {2}↓\n {2}✔ d\n$`),
    )
  })

  it('shows of a large run what somebody may look for', async () => {
    const many = Object.fromEntries(
      Array.from({ length: 250 }, (_, index) => [`n${index}`, { type: 'many.n' }]),
    )
    const tasks = { ...many, ask: { kind: 'approval', reason: 'Go on?' } }
    await publishWorkflow(database.db, 'many', { tasks })
    const id = await startRun(database.db, { workflow: 'many' })
    const [job] = await claim(database.db, { worker: 'w', types: ['many.n'] })
    await workOff(database.db, { 'many.n': () => new Error('no luck') })
    await database.db.query('select fencepost.complete($1, $2)', [job?.job_id, job?.token])
    const watching = run(['run', 'watch', `${id}`], {
      width: 80,
      height: 20,
      env: { NO_COLOR: '1' },
    })
    const [approval] = await json(['approval', 'list', '--workflow', 'many'])
    await said(['approval', 'approve', `${approval.id}`])
    const { code, out } = await watching
    expect(code).toBe(1)
    expect(out).toContain('249 failed')
    expect(out).toMatch(/✘ n\d+: no luck/)
    for (const frame of out.split('\u001b[J')) {
      expect(frame.split('\n').length).toBeLessThanOrEqual(20)
      for (const line of frame.split('\n')) expect([...line].length).toBeLessThanOrEqual(80)
    }
  })

  it('knows no run that does not exist', async () => {
    expect(await refused(['run', 'watch', '999999999'])).toContain('JE002')
  })
})
