import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { bury, type Claimed, claim, complete, fail, freshType } from '../support/engine.ts'
import { begin, expectSound, publish, Run, start } from '../support/runs.ts'
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

/** A run of three steps, the last of which failed. */
async function failed(): Promise<Run> {
  const run = await begin(
    db(),
    { a: undoing.of(), b: undoing.of('a'), c: undoing.of('b') },
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
    const run = await failed()
    expect(await run.row()).toMatchObject({ status: 'compensating', finished_at: null })
    const first = await undoing.claim()
    expect(first.payload).toEqual({
      task: 'b',
      input: { input: { order: 7 }, tasks: { a: 'A' } },
      output: 'B',
      run: { id: run.id, input: { order: 7 } },
    })
    await complete(db(), first)
    const second = await undoing.claim()
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
      ['a', 'completed', undoing.type],
      ['b', 'completed', undoing.type],
    ])
  })

  it('waits until nothing of the run is queued, and undoes what completes until then', async () => {
    const run = await begin(db(), { a: undoing.of(), b: undoing.of(), c: {} }, {}, saga)
    const job = await run.claim('a')
    await run.bury('c')
    await run.complete('b')
    expect(await run.status()).toBe('failed')
    await complete(db(), job)
    expect(await run.status()).toBe('compensating')
    expect((await undoing.all()).toSorted()).toEqual(['a', 'b'])
    expect(await run.status()).toBe('compensated')
  })

  it('cancels what still waits', async () => {
    const run = await begin(
      db(),
      {
        a: undoing.of(),
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
    expect(await undoing.all()).toEqual(['a'])
  })

  it('with nothing to undo ends at once', async () => {
    const run = await begin(db(), { a: undoing.of(), b: { after: ['a'] } }, {}, saga)
    await run.bury('a')
    expect(await run.row()).toMatchObject({ status: 'compensated', finished_at: expect.any(Date) })
    expect(await run.statuses()).toEqual({ a: 'failed', b: 'cancelled' })
  })

  it('leaves out skipped tasks and failures that the run went over; a run without the policy undoes nothing', async () => {
    const tasks = () => ({
      skipped: { ...undoing.of(), when: 'false == true' },
      over: { ...undoing.of(), on_failure: 'continue' },
      a: undoing.of(),
      bad: { after: ['a', 'over'] },
    })
    const run = await begin(db(), tasks(), {}, saga)
    await run.bury('over')
    await run.complete('a')
    await run.bury('bad')
    expect(await undoing.all()).toEqual(['a'])

    const plain = await begin(db(), tasks())
    await plain.bury('over')
    await plain.complete('a')
    await plain.bury('bad')
    expect(await plain.status()).toBe('failed')
    expect(await undoing.all()).toEqual([])
  })

  it('is not begun by a replay that comes in time, and refuses one that is late', async () => {
    const run = await begin(db(), { a: undoing.of(), b: {}, c: {} }, {}, saga)
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
    const run = await failed()
    expect(await fail(db(), await undoing.claim())).toBe('retry')
    await db().query("update fencepost_private.delayed set available_at = '-infinity'")
    await one(db(), 'select fencepost_private.promote()')
    await bury(db(), await undoing.claim(), 'cannot be undone')
    expect(await run.row()).toMatchObject({ status: 'failed', finished_at: expect.any(Date) })
    expect(await undoing.all()).toEqual([])
    const dead = (await run.rows()).find(
      ({ kind, status }) => kind === 'compensation' && status === 'failed',
    )
    expect(dead).toMatchObject({ name: 'b', error: 'cannot be undone' })
    await one(db(), 'select fencepost.replay_task($1)', [dead?.id])
    expect(await run.row()).toMatchObject({ status: 'compensating', finished_at: null })
    expect(await undoing.all()).toEqual(['b', 'a'])
    expect(await run.status()).toBe('compensated')
  })

  it('an undoing whose payload is refused has failed', async () => {
    const run = await begin(db(), { a: undoing.of(), b: { after: ['a'] } }, {}, saga)
    await db().query(
      'update fencepost_private.job_type set max_payload_bytes = 100 where type = $1',
      [undoing.type],
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
    const run = await failed()
    const lost = (await claim(db(), undoing.type, 1, 'doomed'))[0] as Claimed
    await db().query(
      `update fencepost_private.worker set status = 'lost', ended_at = clock_timestamp() where name = 'doomed'`,
    )
    await one(db(), 'select fencepost_private.reclaim()')
    await refused(complete(db(), lost), 'JE001')
    expect(await undoing.all()).toEqual(['b', 'a'])
    expect(await run.status()).toBe('compensated')
  })

  it('is held by a pause, whether an undoing waits or runs', async () => {
    for (const running of [false, true]) {
      const run = await failed()
      const job = running ? await undoing.claim() : undefined
      await run.call('pause_run')
      if (job !== undefined) await complete(db(), job)
      await expectSound(db())
      expect(await claim(db(), undoing.type)).toEqual([])
      await run.call('resume_run')
      expect(await undoing.all()).toEqual(running ? ['a'] : ['b', 'a'])
    }
  })

  it('is cut short by cancel_run', async () => {
    const run = await failed()
    const job = await undoing.claim()
    await run.call('cancel_run')
    await complete(db(), job)
    expect(await run.row()).toMatchObject({ status: 'cancelled', finished_at: expect.any(Date) })
    expect(await undoing.all()).toEqual([])
  })

  it('of a restarted run knows the input of what it took over', async () => {
    const old = await begin(db(), { a: undoing.of(), b: { after: ['a'] } }, { order: 1 }, saga)
    await old.complete('a', 'A')
    await old.call('cancel_run')
    const run = new Run(db(), await old.call<number>('restart_run'), old.workflow)
    await run.bury('b')
    expect((await undoing.claim()).payload).toMatchObject({
      task: 'a',
      input: { input: { order: 1 } },
      output: 'A',
    })
  })

  it('is not taken over by a restart: what was undone is done anew, with all that comes after it', async () => {
    const old = await failed()
    await undoing.all()
    const run = new Run(db(), await old.call<number>('restart_run'), old.workflow)
    expect(await run.statuses()).toEqual({ a: 'queued', b: 'pending', c: 'pending' })
  })

  it.each(['runs', 'is dead', 'was done'])('cut short while the undoing %s', async (state) => {
    const old = await failed()
    const job = await undoing.claim()
    if (state === 'is dead') await bury(db(), job)
    if (state === 'was done') await complete(db(), job)
    await old.call('cancel_run')
    if (state === 'runs') await fail(db(), job)
    const run = new Run(db(), await old.call<number>('restart_run'), old.workflow)
    const isNext = state === 'was done'
    expect(await run.statuses()).toEqual({
      a: isNext ? 'queued' : 'completed',
      b: isNext ? 'pending' : 'queued',
      c: 'pending',
    })
    expect((await run.task('a')).output).toBe(isNext ? null : 'A')
  })

  it('is not taken over either when the undoing was cancelled and waits to be tried again', async () => {
    const old = await failed()
    await one(db(), 'select fencepost.cancel($1)', [(await old.rows()).at(-1)?.job_id])
    await old.call('pause_run')
    await old.call('retry_run')
    await expectSound(db())
    await old.call('cancel_run')
    const run = new Run(db(), await old.call<number>('restart_run'), old.workflow)
    expect(await run.statuses()).toEqual({ a: 'completed', b: 'queued', c: 'pending' })
  })

  it('several runs that fail in one statement', async () => {
    const bad = freshType('bad')
    const workflow = await publish(db(), { a: undoing.of(), b: { after: ['a'], type: bad } }, saga)
    const runs = [await start(db(), workflow), await start(db(), workflow)]
    for (const run of runs) await run.complete('a')
    const jobs = await claim(db(), bad, 2)
    await db().query('select * from fencepost.fail_many($1, $2, permanent => $3)', [
      jobs.map((job) => job.job_id),
      jobs.map((job) => job.token),
      [true, true],
    ])
    for (const run of runs) expect(await run.status()).toBe('compensating')
    for (const job of await claim(db(), undoing.type, 10)) await complete(db(), job)
    for (const run of runs) expect(await run.status()).toBe('compensated')
  })
})
