import { afterEach, describe, expect, it } from 'vitest'
import { begin, drain, expectSound, type Run, type TaskSpec } from '../support/runs.ts'
import { ownDatabase } from '../support/server.ts'

// The join rule: a task becomes ready when all its parents have ended well (completed or skipped), and is skipped itself
// if its `when` is false or if it has parents and all of them were skipped.

const database = ownDatabase()
const db = () => database.db
afterEach(() => expectSound(db()))

const never = { when: '$.input.never == true' }
const always = { when: '$.input.never == false' }
const follows = (...parents: string[]): TaskSpec => ({ after: parents })

/** Starts a run, does all work that comes up, and returns what ran, in order. */
async function ran(tasks: Record<string, TaskSpec>): Promise<{ run: Run; order: string[] }> {
  const run = await begin(db(), tasks, { never: false })
  return { run, order: await drain(db(), run.workflow, Object.keys(tasks)) }
}

describe('joins', () => {
  it('a single task', async () => {
    const { run, order } = await ran({ a: {} })
    expect(order).toEqual(['a'])
    expect(await run.row()).toMatchObject({ status: 'completed', ended_tasks: 1 })
    expect((await run.row()).finished_at).not.toBeNull()
    expect(await run.events()).toEqual(['run.started', 'run.completed'])
  })

  it('tasks without parents start at once, all of them', async () => {
    const run = await begin(db(), { a: {}, b: {}, c: {} })
    expect(await run.statuses()).toEqual({ a: 'queued', b: 'queued', c: 'queued' })
    expect(await run.status()).toBe('running')
  })

  it('a chain runs in order', async () => {
    const { run, order } = await ran({ c: follows('b'), b: follows('a'), a: {} })
    expect(order).toEqual(['a', 'b', 'c'])
    expect(await run.status()).toBe('completed')
  })

  it('the diamond: A, then B and C, then D once both are done', async () => {
    const run = await begin(db(), { a: {}, b: follows('a'), c: follows('a'), d: follows('b', 'c') })
    expect(await run.statuses()).toEqual({ a: 'queued', b: 'pending', c: 'pending', d: 'pending' })
    await run.complete('a', 1)
    expect(await run.statuses()).toEqual({ a: 'completed', b: 'queued', c: 'queued', d: 'pending' })
    await run.complete('c', 3)
    expect(await run.statuses()).toMatchObject({ b: 'queued', c: 'completed', d: 'pending' })
    expect((await run.task('d')).unmet_parents).toBe(1)
    await run.complete('b', 2)
    expect(await run.statuses()).toMatchObject({ b: 'completed', d: 'queued' })
    expect((await run.claim('d')).payload).toEqual({ input: {}, tasks: { b: 2, c: 3 } })
  })

  it('a wide join waits for the last parent', async () => {
    const parents = Array.from({ length: 30 }, (_, index) => `p${index}`)
    const run = await begin(db(), {
      ...Object.fromEntries(parents.map((name) => [name, {}])),
      end: follows(...parents),
    })
    for (const name of parents) {
      expect((await run.task('end')).status).toBe('pending')
      await run.complete(name)
    }
    expect((await run.task('end')).status).toBe('queued')
  })

  it('an edge that skips a level waits for both', async () => {
    const { order } = await ran({ a: {}, b: follows('a'), c: follows('a', 'b') })
    expect(order).toEqual(['a', 'b', 'c'])
  })
})

describe('skips', () => {
  it.each([
    ['a root whose condition is false', { a: never }, { a: 'skipped' }, []],
    ['a root whose condition is true', { a: always }, { a: 'completed' }, ['a']],
    [
      'a child of nothing but a skipped task is skipped',
      { a: never, b: follows('a') },
      { a: 'skipped', b: 'skipped' },
      [],
    ],
    [
      'a chain of skips goes to its end',
      { a: never, b: follows('a'), c: follows('b'), d: follows('c') },
      { a: 'skipped', b: 'skipped', c: 'skipped', d: 'skipped' },
      [],
    ],
    [
      'one of two parents skipped: it runs',
      { a: {}, b: never, c: follows('a', 'b') },
      { a: 'completed', b: 'skipped', c: 'completed' },
      ['a', 'c'],
    ],
    [
      'all of two parents skipped: it is skipped',
      { a: never, b: never, c: follows('a', 'b') },
      { a: 'skipped', b: 'skipped', c: 'skipped' },
      [],
    ],
    [
      'all parents skipped although its own condition is true',
      { a: never, b: { ...always, ...follows('a') } },
      { a: 'skipped', b: 'skipped' },
      [],
    ],
    [
      'its own condition false although a parent completed',
      { a: {}, b: { ...never, ...follows('a') } },
      { a: 'completed', b: 'skipped' },
      ['a'],
    ],
    [
      'one branch of a diamond skipped',
      { a: {}, b: { ...never, ...follows('a') }, c: follows('a'), d: follows('b', 'c') },
      { a: 'completed', b: 'skipped', c: 'completed', d: 'completed' },
      ['a', 'c', 'd'],
    ],
    [
      'both branches of a diamond skipped',
      {
        a: {},
        b: { ...never, ...follows('a') },
        c: { ...never, ...follows('a') },
        d: follows('b', 'c'),
      },
      { a: 'completed', b: 'skipped', c: 'skipped', d: 'skipped' },
      ['a'],
    ],
    [
      'the head of a diamond skipped',
      { a: never, b: follows('a'), c: follows('a'), d: follows('b', 'c') },
      { a: 'skipped', b: 'skipped', c: 'skipped', d: 'skipped' },
      [],
    ],
    [
      'a long skipped branch beside a short one that ran',
      { a: {}, x: never, y: follows('x'), z: follows('y'), d: follows('a', 'z') },
      { a: 'completed', x: 'skipped', y: 'skipped', z: 'skipped', d: 'completed' },
      ['a', 'd'],
    ],
    [
      'a parent and a grandparent, the parent skipped',
      { a: {}, b: { ...never, ...follows('a') }, c: follows('a', 'b') },
      { a: 'completed', b: 'skipped', c: 'completed' },
      ['a', 'c'],
    ],
    [
      'kinds that are no jobs are skipped alike',
      {
        a: never,
        timer: { kind: 'timer', delay: '1 hour', ...follows('a') },
        approval: { kind: 'approval', ...follows('a') },
        signal: { kind: 'signal', signal: 's', ...follows('a') },
        map: { kind: 'map', over: '$.input.list', ...follows('a') },
        child: { kind: 'workflow', workflow: 'none', ...follows('a') },
      },
      {
        a: 'skipped',
        timer: 'skipped',
        approval: 'skipped',
        signal: 'skipped',
        map: 'skipped',
        child: 'skipped',
      },
      [],
    ],
  ] as [string, Record<string, TaskSpec>, Record<string, string>, string[]][])(
    '%s',
    async (_, tasks, statuses, expected) => {
      const { run, order } = await ran(tasks)
      expect(order).toEqual(expected)
      expect(await run.statuses()).toEqual(statuses)
      expect(await run.status()).toBe('completed')
    },
  )

  it('says why, in the task and in the log', async () => {
    const { run } = await ran({ a: never, b: follows('a') })
    expect((await run.task('a')).error).toBe('its condition is false: ($."input"."never" == true)')
    expect((await run.task('b')).error).toBe('all its parents were skipped')
    expect(await run.events()).toEqual([
      'run.started',
      'task.skipped',
      'task.skipped',
      'run.completed',
    ])
  })

  it('a skipped parent gives its child no output', async () => {
    const run = await begin(db(), { a: {}, b: never, c: follows('a', 'b') }, { never: false })
    await run.complete('a', 'x')
    expect((await run.claim('c')).payload).toEqual({ input: { never: false }, tasks: { a: 'x' } })
  })

  it('a chain of 500 skips ends with the task that starts it', async () => {
    const tasks = Object.fromEntries(
      Array.from({ length: 500 }, (_, index) => [
        `t${index}`,
        index === 0 ? never : follows(`t${index - 1}`),
      ]),
    )
    const run = await begin(db(), tasks, { never: false })
    expect(await run.row()).toMatchObject({ status: 'completed', ended_tasks: 500 })
  })
})
