import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { bury, type Claimed, claim, complete, fail } from '../support/engine.ts'
import { begin, expectSound, publish, Run, start, type TaskSpec } from '../support/runs.ts'
import { type TestDatabase, testDatabase } from '../support/server.ts'
import { one, refused } from '../support/sql.ts'

let database: TestDatabase
const db = () => database.db
beforeAll(async () => {
  database = await testDatabase()
})
afterAll(() => database.drop())
afterEach(() => expectSound(db()))

let count = 0
/** The type that undoes tasks of the current test, so that one claim finds whatever is to be undone. */
const undoing = () => `undo.${count}`
const undoable = (...after: string[]): TaskSpec => ({ compensate: undoing(), after })
afterEach(() => {
  count++
})

async function claimUndo(): Promise<Claimed> {
  const jobs = await claim(db(), undoing(), 10)
  expect(jobs).toHaveLength(1)
  return jobs[0] as Claimed
}

/** Undoes until nothing is left; returns the tasks, in that order. */
async function undone(): Promise<string[]> {
  const tasks: string[] = []
  for (;;) {
    const [job, more] = await claim(db(), undoing(), 10)
    expect(more).toBeUndefined()
    if (job === undefined) return tasks
    tasks.push((job.payload as { task: string }).task)
    await complete(db(), job)
    await expectSound(db())
  }
}

const saga = { on_failure: 'compensate' }

/** A run of three steps, the last of which failed. */
async function failedSaga(): Promise<Run> {
  const run = await begin(
    db(),
    { a: undoable(), b: undoable('a'), c: undoable('b') },
    { order: 7 },
    saga,
  )
  await run.complete('a', 'A')
  await run.complete('b', 'B')
  await run.bury('c', 'no card')
  return run
}

describe('compensation', () => {
  it('undoes what completed, children before parents, with input and output', async () => {
    const run = await failedSaga()
    expect(await run.row()).toMatchObject({ status: 'compensating', finished_at: null })
    const first = await claimUndo()
    expect(first.payload).toEqual({
      task: 'b',
      input: { input: { order: 7 }, tasks: { a: 'A' } },
      output: 'B',
      run: { id: run.id, input: { order: 7 } },
    })
    await complete(db(), first)
    const second = await claimUndo()
    expect(second.payload).toMatchObject({
      task: 'a',
      output: 'A',
      input: { input: { order: 7 }, tasks: {} },
    })
    expect(await run.status()).toBe('compensating')
    await complete(db(), second)
    expect(await run.row()).toMatchObject({ status: 'compensated', finished_at: expect.any(Date) })
    expect(await run.events()).toEqual(['run.started', 'run.failed', 'run.compensated'])
    const rows = (await run.rows()).filter(({ kind }) => kind === 'compensation')
    expect(rows.map(({ name, status, type }) => [name, status, type])).toEqual([
      ['a', 'completed', undoing()],
      ['b', 'completed', undoing()],
    ])
  })

  it('waits until nothing of the run is queued, and undoes what completes until then', async () => {
    const run = await begin(db(), { a: undoable(), b: undoable(), c: {} }, {}, saga)
    const job = await run.claim('a')
    await run.bury('c')
    await run.complete('b')
    expect(await run.status()).toBe('failed')
    await complete(db(), job)
    expect(await run.status()).toBe('compensating')
    expect((await undone()).toSorted()).toEqual(['a', 'b'])
    expect(await run.status()).toBe('compensated')
  })

  it('cancels what still waits', async () => {
    const run = await begin(
      db(),
      {
        a: undoable(),
        bad: { after: ['a'] },
        later: { after: ['bad'] },
        t: { kind: 'timer', delay: '1 hour' },
        s: { kind: 'signal', signal: 's' },
        ok: { kind: 'approval' },
      },
      {},
      saga,
    )
    await run.complete('a')
    await run.bury('bad')
    expect(await run.statuses()).toEqual({
      a: 'completed',
      bad: 'failed',
      later: 'cancelled',
      t: 'cancelled',
      s: 'cancelled',
      ok: 'cancelled',
    })
    expect(await undone()).toEqual(['a'])
  })

  it('with nothing to undo ends at once', async () => {
    const run = await begin(db(), { a: undoable(), b: { after: ['a'] } }, {}, saga)
    await run.bury('a')
    expect(await run.row()).toMatchObject({ status: 'compensated', finished_at: expect.any(Date) })
    expect(await run.statuses()).toEqual({ a: 'failed', b: 'cancelled' })
  })

  it('leaves out skipped tasks and failures that the run went over; a run without the policy undoes nothing', async () => {
    const tasks = () => ({
      skipped: { ...undoable(), when: 'false == true' },
      over: { ...undoable(), on_failure: 'continue' },
      a: undoable(),
      bad: { after: ['a', 'over'] },
    })
    const run = await begin(db(), tasks(), {}, saga)
    await run.bury('over')
    await run.complete('a')
    await run.bury('bad')
    expect(await undone()).toEqual(['a'])

    const plain = await begin(db(), tasks())
    await plain.bury('over')
    await plain.complete('a')
    await plain.bury('bad')
    expect(await plain.status()).toBe('failed')
    expect(await undone()).toEqual([])
  })

  it('is not begun by a replay that comes in time, and refuses one that is late', async () => {
    const run = await begin(db(), { a: undoable(), b: {}, c: {} }, {}, saga)
    const job = await run.claim('c')
    await run.complete('a')
    await run.bury('b')
    await one(db(), 'select fencepost.replay_task($1)', [(await run.task('b')).id])
    await complete(db(), job)
    expect(await run.status()).toBe('running')
    await run.bury('b')
    expect(await run.status()).toBe('compensating')
    await refused(
      one(db(), 'select fencepost.replay_task($1)', [(await run.task('b')).id]),
      'JE004',
    )
    await refused(run.call('signal_run', 's'), 'JE004')
  })

  it('an undoing that fails is retried, then dead-lettered: the run has failed, until it is replayed', async () => {
    const run = await failedSaga()
    expect(await fail(db(), await claimUndo())).toBe('retry')
    await db().query("update fencepost_private.delayed set available_at = '-infinity'")
    await one(db(), 'select fencepost_private.promote()')
    await bury(db(), await claimUndo(), 'cannot be undone')
    expect(await run.row()).toMatchObject({ status: 'failed', finished_at: expect.any(Date) })
    expect(await undone()).toEqual([])
    expect(await run.call('retry_run').catch((error: Error) => error.message)).toContain(
      'being compensated',
    )
    const dead = (await run.rows()).find(
      ({ kind, status }) => kind === 'compensation' && status === 'failed',
    )
    expect(dead).toMatchObject({ name: 'b', error: 'cannot be undone' })
    await one(db(), 'select fencepost.replay_task($1)', [dead?.id])
    expect(await run.row()).toMatchObject({ status: 'compensating', finished_at: null })
    expect(await undone()).toEqual(['b', 'a'])
    expect(await run.status()).toBe('compensated')
  })

  it('an undoing whose payload is refused has failed', async () => {
    const run = await begin(db(), { a: undoable(), b: { after: ['a'] } }, {}, saga)
    await db().query(
      'update fencepost_private.job_type set max_payload_bytes = 100 where type = $1',
      [undoing()],
    )
    await run.complete('a', 'x'.repeat(100))
    await run.bury('b')
    expect(await run.status()).toBe('failed')
    expect((await run.rows()).at(-1)).toMatchObject({
      kind: 'compensation',
      status: 'failed',
      error: expect.stringContaining('JE006'),
    })
  })

  it('survives its worker: undone in order, each once', async () => {
    const run = await failedSaga()
    const lost = (await claim(db(), undoing(), 1, 'doomed'))[0] as Claimed
    await db().query(
      `update fencepost_private.worker set status = 'lost', ended_at = clock_timestamp() where name = 'doomed'`,
    )
    await one(db(), 'select fencepost_private.reclaim()')
    await refused(complete(db(), lost), 'JE001')
    expect(await undone()).toEqual(['b', 'a'])
    expect(await run.status()).toBe('compensated')
  })

  it('is held by a pause, whether an undoing waits or runs', async () => {
    for (const running of [false, true]) {
      const run = await failedSaga()
      const job = running ? await claimUndo() : undefined
      await run.call('pause_run')
      if (job !== undefined) await complete(db(), job)
      await expectSound(db())
      expect(await claim(db(), undoing())).toEqual([])
      await run.call('resume_run')
      expect(await undone()).toEqual(running ? ['a'] : ['b', 'a'])
    }
  })

  it('is cut short by cancel_run', async () => {
    const run = await failedSaga()
    const job = await claimUndo()
    await run.call('cancel_run')
    await complete(db(), job)
    expect(await run.row()).toMatchObject({ status: 'cancelled', finished_at: expect.any(Date) })
    expect(await undone()).toEqual([])
  })

  it('of a restarted run knows the input of what it took over', async () => {
    const old = await begin(db(), { a: undoable(), b: { after: ['a'] } }, { order: 1 }, saga)
    await old.complete('a', 'A')
    const run = new Run(db(), await old.call<number>('restart_run'), old.workflow)
    const jobs = await run.claimAll('b')
    for (const job of jobs) await bury(db(), job)
    const payloads = (await claim(db(), undoing(), 10)).map(({ payload }) => payload)
    expect(payloads).toHaveLength(2)
    for (const payload of payloads)
      expect(payload).toMatchObject({ task: 'a', input: { input: { order: 1 } }, output: 'A' })
  })
})

describe('compensation around child runs', () => {
  it('cancels those that are alive, and waits for their last handler', async () => {
    const workflow = await publish(db(), { x: {} })
    const run = await begin(
      db(),
      { a: undoable(), call: { kind: 'workflow', workflow }, bad: { after: ['a'] } },
      {},
      saga,
    )
    const inner = await run.child('call', workflow)
    const job = await inner.claim('x')
    await run.complete('a')
    await run.bury('bad')
    expect(await run.status()).toBe('compensating')
    expect(await inner.status()).toBe('cancelled')
    expect(await claim(db(), undoing())).toEqual([])
    await complete(db(), job)
    expect(await undone()).toEqual(['a'])
    expect(await run.status()).toBe('compensated')
    expect(await run.statuses()).toEqual({ a: 'completed', call: 'cancelled', bad: 'failed' })
  })

  it('lets a child undo itself first', async () => {
    const workflow = await publish(db(), { x: undoable(), y: { after: ['x'] } }, saga)
    const run = await begin(
      db(),
      { a: undoable(), call: { kind: 'workflow', workflow, after: ['a'] } },
      {},
      saga,
    )
    await run.complete('a')
    const inner = await run.child('call', workflow)
    await inner.complete('x')
    await inner.bury('y')
    expect([await run.status(), await inner.status()]).toEqual(['waiting', 'compensating'])
    expect(await undone()).toEqual(['x', 'a'])
    expect([await run.status(), await inner.status()]).toEqual(['compensated', 'compensated'])
    expect((await run.task('call')).error).toBe(`child run ${inner.id} ended as compensated`)
  })

  it('lets a child that has failed already undo itself, although its parent begins first', async () => {
    const workflow = await publish(db(), { x: undoable(), y: {}, z: {} }, saga)
    const run = await begin(
      db(),
      { a: undoable(), call: { kind: 'workflow', workflow }, bad: {} },
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
    expect(await claim(db(), undoing())).toEqual([])
    await complete(db(), job)
    expect(await undone()).toEqual(['x', 'a'])
    expect([await run.status(), await inner.status()]).toEqual(['compensated', 'compensated'])
  })

  it('stops a child that is alive and undoes itself, and waits for it', async () => {
    const workflow = await publish(
      db(),
      { x: undoable(), y: { after: ['x'] }, z: { after: ['y'] } },
      saga,
    )
    const between = await publish(db(), { call: { kind: 'workflow', workflow } })
    const run = await begin(
      db(),
      { a: undoable(), call: { kind: 'workflow', workflow: between }, bad: {} },
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
    expect(await claim(db(), undoing())).toEqual([])
    await expectSound(db())
    expect(await fail(db(), job)).toBe('cancelled')
    expect(await undone()).toEqual(['x', 'a'])
    expect([await run.status(), await middle.status(), await inner.status()]).toEqual([
      'compensated',
      'cancelled',
      'compensated',
    ])
  })

  it('refuses replays inside of what is being undone, but for undoings', async () => {
    const workflow = await publish(db(), { x: undoable(), y: { after: ['x'] } }, saga)
    const plain = await publish(db(), { x: {} })
    const run = await begin(
      db(),
      {
        first: {},
        a: undoable(),
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
    await bury(db(), await claimUndo())
    await complete(db(), job)
    expect([await run.status(), await inner.status(), await other.status()]).toEqual([
      'compensating',
      'failed',
      'failed',
    ])
    await refused(
      one(db(), 'select fencepost.replay_task($1)', [(await other.task('x')).id]),
      'JE004',
    )
    expect(await undone()).toEqual(['a'])
    const dead = (await inner.rows()).find(({ kind }) => kind === 'compensation')
    await one(db(), 'select fencepost.replay_task($1)', [dead?.id])
    expect(await undone()).toEqual(['x'])
    expect([await run.status(), await inner.status()]).toEqual(['compensated', 'compensated'])
  })

  it('several runs that fail in one statement', async () => {
    const workflow = await publish(
      db(),
      { a: undoable(), b: { after: ['a'], type: `bad.${count}` } },
      saga,
    )
    const runs = [await start(db(), workflow), await start(db(), workflow)]
    for (const run of runs) await run.complete('a')
    const jobs = await claim(db(), `bad.${count}`, 2)
    await db().query('select * from fencepost.fail_many($1, $2, permanent => $3)', [
      jobs.map((job) => job.job_id),
      jobs.map((job) => job.token),
      [true, true],
    ])
    for (const run of runs) expect(await run.status()).toBe('compensating')
    for (const job of await claim(db(), undoing(), 10)) await complete(db(), job)
    for (const run of runs) expect(await run.status()).toBe('compensated')
  })
})
