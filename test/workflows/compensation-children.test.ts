import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { bury, claim, complete, fail } from '../support/engine.ts'
import { begin, expectSound, publish } from '../support/runs.ts'
import { ownDatabase } from '../support/server.ts'
import { one, refused } from '../support/sql.ts'
import { saga, Undoing } from './undoing.ts'

const database = ownDatabase()
const db = () => database.db
let undoing: Undoing
beforeEach(() => {
  undoing = new Undoing(db())
})
afterEach(() => expectSound(db()))

describe('compensation around child runs', () => {
  it('cancels those that are alive, and waits for their last handler', async () => {
    const workflow = await publish(db(), { x: {} })
    const run = await begin(
      db(),
      { a: undoing.of(), call: { kind: 'workflow', workflow }, bad: { after: ['a'] } },
      {},
      saga,
    )
    const inner = await run.child('call', workflow)
    const job = await inner.claim('x')
    await run.complete('a')
    await run.bury('bad')
    expect(await run.status()).toBe('compensating')
    expect(await inner.status()).toBe('cancelled')
    expect(await claim(db(), undoing.type)).toEqual([])
    await complete(db(), job)
    expect(await undoing.all()).toEqual(['a'])
    expect(await run.status()).toBe('compensated')
    expect(await run.statuses()).toEqual({ a: 'completed', call: 'cancelled', bad: 'failed' })
  })

  it('lets a child undo itself first', async () => {
    const workflow = await publish(db(), { x: undoing.of(), y: { after: ['x'] } }, saga)
    const run = await begin(
      db(),
      { a: undoing.of(), call: { kind: 'workflow', workflow, after: ['a'] } },
      {},
      saga,
    )
    await run.complete('a')
    const inner = await run.child('call', workflow)
    await inner.complete('x')
    await inner.bury('y')
    expect([await run.status(), await inner.status()]).toEqual(['waiting', 'compensating'])
    expect(await undoing.all()).toEqual(['x', 'a'])
    expect([await run.status(), await inner.status()]).toEqual(['compensated', 'compensated'])
    expect((await run.task('call')).error).toBe(`child run ${inner.id} ended as compensated`)
  })

  it('lets a child that has failed already undo itself, although its parent begins first', async () => {
    const workflow = await publish(db(), { x: undoing.of(), y: {}, z: {} }, saga)
    const run = await begin(
      db(),
      { a: undoing.of(), call: { kind: 'workflow', workflow }, bad: {} },
      {},
      saga,
    )
    const inner = await run.child('call', workflow)
    await run.complete('a')
    await inner.complete('x')
    const job = await inner.claim('z')
    await inner.bury('y')
    await run.bury('bad')
    expect([await run.status(), await inner.status()]).toEqual(['compensating', 'failed'])
    expect(await claim(db(), undoing.type)).toEqual([])
    await complete(db(), job)
    expect(await undoing.all()).toEqual(['x', 'a'])
    expect([await run.status(), await inner.status()]).toEqual(['compensated', 'compensated'])
  })

  it('stops a child that is alive and undoes itself, and waits for it', async () => {
    const workflow = await publish(
      db(),
      { x: undoing.of(), y: { after: ['x'] }, z: { after: ['y'] } },
      saga,
    )
    const between = await publish(db(), { call: { kind: 'workflow', workflow } })
    const run = await begin(
      db(),
      { a: undoing.of(), call: { kind: 'workflow', workflow: between }, bad: {} },
      {},
      saga,
    )
    const middle = await run.child('call', between)
    const inner = await middle.child('call', workflow)
    await run.complete('a')
    await inner.complete('x')
    const job = await inner.claim('y')
    await run.bury('bad')
    expect([await run.status(), await middle.status(), await inner.status()]).toEqual([
      'compensating',
      'cancelled',
      'failed',
    ])
    expect(await claim(db(), undoing.type)).toEqual([])
    await expectSound(db())
    expect(await fail(db(), job)).toBe('cancelled')
    expect(await undoing.all()).toEqual(['x', 'a'])
    expect([await run.status(), await middle.status(), await inner.status()]).toEqual([
      'compensated',
      'cancelled',
      'compensated',
    ])
  })

  it('cancels what waits in such a child, and nothing of what that begins to undo', async () => {
    const workflow = await publish(db(), { x: undoing.of(), y: { after: ['x'] } }, saga)
    const run = await begin(
      db(),
      { a: undoing.of(), call: { kind: 'workflow', workflow }, bad: {} },
      {},
      saga,
    )
    await run.complete('a')
    const inner = await run.child('call', workflow)
    await inner.complete('x')
    await run.bury('bad')
    expect(await inner.statuses()).toEqual({ x: 'completed', y: 'cancelled' })
    expect(await undoing.all()).toEqual(['x', 'a'])
    expect([await run.status(), await inner.status()]).toEqual(['compensated', 'compensated'])
  })

  it('refuses replays inside of what is being undone, but for undoings', async () => {
    const workflow = await publish(db(), { x: undoing.of(), y: { after: ['x'] } }, saga)
    const plain = await publish(db(), { x: {}, y: { after: ['x'] } })
    const run = await begin(
      db(),
      {
        first: {},
        a: undoing.of(),
        call: { kind: 'workflow', workflow, after: ['a'] },
        other: { kind: 'workflow', workflow: plain },
      },
      {},
      saga,
    )
    const job = await run.claim('first')
    await run.complete('a')
    const [inner, other] = [await run.child('call', workflow), await run.child('other', plain)]
    await other.bury('x')
    await inner.complete('x')
    await inner.bury('y')
    await bury(db(), await undoing.claim())
    await complete(db(), job)
    expect([await run.status(), await inner.status(), await other.status()]).toEqual([
      'compensating',
      'failed',
      'failed',
    ])
    for (const [call, task] of [
      ['replay_task', 'x'],
      ['request_approval', 'y'],
    ])
      await refused(
        one(db(), `select fencepost.${call}($1)`, [(await other.task(String(task))).id]),
        'JE004',
      )
    expect(await undoing.all()).toEqual(['a'])
    const dead = (await inner.rows()).find(({ kind }) => kind === 'compensation')
    await one(db(), 'select fencepost.replay_task($1)', [dead?.id])
    expect(await undoing.all()).toEqual(['x'])
    expect([await run.status(), await inner.status()]).toEqual(['compensated', 'compensated'])
  })
})
