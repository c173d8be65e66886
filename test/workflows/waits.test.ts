import { afterEach, describe, expect, it } from 'vitest'
import { json } from '../../src/database/database.ts'
import { moveClock, restoreClock } from '../support/clock.ts'
import { complete, maintain } from '../support/engine.ts'
import { begin, expectSound, type Run, settleDue } from '../support/runs.ts'
import { ownDatabase } from '../support/server.ts'
import { one, refused } from '../support/sql.ts'

const database = ownDatabase()
const db = () => database.db
afterEach(async () => {
  await expectSound(db())
  await restoreClock(db())
})

const signal = (run: Run, name: string, payload?: unknown) =>
  payload === undefined
    ? run.call<number>('signal_run', name)
    : run.call<number>('signal_run', name, json(payload))

describe('a timer', () => {
  it('fires when its delay has passed, not before, through maintain()', async () => {
    const run = await begin(db(), { t: { kind: 'timer', delay: '1 hour' }, end: { after: ['t'] } })
    expect(await run.row()).toMatchObject({ status: 'waiting', waiting_tasks: 1 })
    const { due_at } = await run.task('t')
    await moveClock(db(), '59 min')
    await maintain(db())
    expect(await run.statuses()).toEqual({ t: 'waiting', end: 'pending' })
    await moveClock(db(), '2 min')
    await maintain(db())
    expect(await run.statuses()).toEqual({ t: 'completed', end: 'queued' })
    expect(new Date(String((await run.task('t')).output))).toEqual(due_at)
    expect((await run.task('t')).due_at).toBeNull()
    expect(await settleDue(db())).toBe(0)
  })

  it('waits until a time that the input or a task names', async () => {
    const run = await begin(db(), {
      a: {},
      t: { kind: 'timer', until: '$.tasks.a.at', after: ['a'] },
    })
    await run.complete('a', { at: '2100-01-01T12:00:00+02:00' })
    expect((await run.task('t')).due_at).toEqual(new Date('2100-01-01T10:00:00Z'))
  })

  it.each([['2000-01-01'], ['2000-01-01T00:00:00Z']])(
    'until %s, which has passed, is no wait',
    async (at) => {
      const run = await begin(
        db(),
        { t: { kind: 'timer', until: '$.input.at' }, end: { after: ['t'] } },
        { at },
      )
      expect(await run.statuses()).toEqual({ t: 'completed', end: 'queued' })
    },
  )

  it.each([
    [{}],
    [{ at: 'soon' }],
    [{ at: 17 }],
    [{ at: { x: 1 } }],
    [{ at: '2024-13-45' }],
    [{ at: null }],
  ])('until %j, which is no time, fails', async (input) => {
    const run = await begin(db(), { t: { kind: 'timer', until: '$.input.at' } }, input)
    expect(await run.task('t')).toMatchObject({
      status: 'failed',
      error: expect.stringMatching(/^until did not give a time but (nothing|null|17|"|\{)/),
    })
  })

  it('does not fire while its run is paused, and does not keep others from firing', async () => {
    const held = await begin(db(), { t: { kind: 'timer', delay: '1 hour' } })
    await held.call('pause_run')
    const run = await begin(db(), { t: { kind: 'timer', delay: '2 hours' } })
    await moveClock(db(), '3 hours')
    expect(await one(db(), 'select fencepost_private.settle_due_runs(1)')).toBe(1)
    expect(await run.status()).toBe('completed')
    expect(await held.statuses()).toEqual({ t: 'waiting' })
    await held.call('resume_run')
    await settleDue(db())
    expect(await held.status()).toBe('completed')
  })

  it('of many runs fire in one pass', async () => {
    const runs = await Promise.all(
      Array.from({ length: 20 }, () => begin(db(), { t: { kind: 'timer', delay: '1 hour' } })),
    )
    await moveClock(db(), '2 hours')
    expect(await settleDue(db())).toBe(20)
    for (const run of runs) expect(await run.status()).toBe('completed')
  })
})

describe('a signal', () => {
  it('ends the task that waits for it, with its payload', async () => {
    const run = await begin(db(), { s: { kind: 'signal', signal: 'paid' }, end: { after: ['s'] } })
    expect(await run.status()).toBe('waiting')
    await signal(run, 'other', { no: true })
    expect((await run.task('s')).status).toBe('waiting')
    await signal(run, 'paid', { amount: 3 })
    expect(await run.task('s')).toMatchObject({ status: 'completed', output: { amount: 3 } })
    expect((await run.claim('end')).payload).toMatchObject({ tasks: { s: { amount: 3 } } })
    expect(await run.events()).toEqual(['run.started', 'signal.received', 'signal.received'])
  })

  it('that comes before its task waits is kept', async () => {
    const run = await begin(db(), { a: {}, s: { kind: 'signal', signal: 'paid', after: ['a'] } })
    const id = await signal(run, 'paid', 'early')
    expect(
      await db().query(
        'select id, name, task_id, payload from fencepost.signals where run_id = $1',
        [run.id],
      ),
    ).toEqual([{ id, name: 'paid', task_id: null, payload: 'early' }])
    await run.complete('a')
    expect(await run.task('s')).toMatchObject({ status: 'completed', output: 'early' })
    expect(await one(db(), 'select task_id from fencepost.signals where id = $1', [id])).toBe(
      (await run.task('s')).id,
    )
    expect(await run.status()).toBe('completed')
  })

  it('is taken once: two tasks of a name need two, oldest first', async () => {
    const run = await begin(db(), {
      one: { kind: 'signal', signal: 's' },
      two: { kind: 'signal', signal: 's' },
      three: { kind: 'signal', signal: 's', after: ['two'] },
    })
    for (const payload of [1, 2, 3]) await signal(run, 's', payload)
    const outputs = (await run.rows()).map(({ output }) => output).sort()
    expect(outputs).toEqual([1, 2, 3])
    expect(await run.status()).toBe('completed')
  })

  it('several early ones go to several tasks in order', async () => {
    const run = await begin(db(), {
      a: {},
      one: { kind: 'signal', signal: 's', after: ['a'] },
      two: { kind: 'signal', signal: 's', after: ['a'] },
    })
    await signal(run, 's', 'first')
    await signal(run, 's', 'second')
    await signal(run, 's', 'third')
    await run.complete('a')
    expect((await run.task('one')).output).toBe('first')
    expect((await run.task('two')).output).toBe('second')
    expect(
      await one(
        db(),
        'select count(*)::int from fencepost.signals where run_id = $1 and task_id is null',
        [run.id],
      ),
    ).toBe(1)
  })

  it('without a payload gives null', async () => {
    const run = await begin(db(), { s: { kind: 'signal', signal: 's' } })
    await signal(run, 's')
    expect(await run.task('s')).toMatchObject({ status: 'completed', output: null })
  })

  it('a signal that comes after its wait has expired is kept, and taken by who waits again', async () => {
    const run = await begin(db(), {
      s: { kind: 'signal', signal: 's', expires_after: '1 hour' },
      other: { kind: 'signal', signal: 's', after: ['s'] },
    })
    await moveClock(db(), '2 hours')
    await signal(run, 's', 7)
    expect(await run.task('s')).toMatchObject({
      status: 'failed',
      error: 'it was waited for in vain',
    })
    await run.call('retry_run')
    expect(await run.task('s')).toMatchObject({ status: 'completed', output: 7 })
    expect(await run.statuses()).toEqual({ s: 'completed', other: 'waiting' })
  })

  it('a signal that comes late while its run is paused is taken: nothing expires then', async () => {
    const run = await begin(db(), { s: { kind: 'signal', signal: 's', expires_after: '1 hour' } })
    await run.call('pause_run')
    await moveClock(db(), '2 hours')
    await signal(run, 's')
    expect(await run.statuses()).toEqual({ s: 'completed' })
  })

  it('that does not come in time fails its task; a late one is kept', async () => {
    const run = await begin(db(), {
      s: { kind: 'signal', signal: 's', expires_after: '1 day' },
      end: { after: ['s'] },
    })
    await moveClock(db(), '25 hours')
    await settleDue(db())
    expect(await run.task('s')).toMatchObject({
      status: 'failed',
      error: 'it was waited for in vain',
    })
    expect(await run.status()).toBe('failed')
    await signal(run, 's')
    expect((await run.task('s')).status).toBe('failed')
  })

  it('reaches a paused run, whose next task waits for the resume', async () => {
    const run = await begin(db(), { s: { kind: 'signal', signal: 's' }, end: { after: ['s'] } })
    await run.call('pause_run')
    await signal(run, 's', 1)
    expect(await run.statuses()).toEqual({ s: 'completed', end: 'pending' })
    await expectSound(db())
    await run.call('resume_run')
    expect(await run.statuses()).toEqual({ s: 'completed', end: 'queued' })
  })

  it('is refused by a run that has ended, and without a name', async () => {
    const run = await begin(db(), { a: {} })
    await refused(signal(run, ''), 'JE003')
    await refused(one(db(), 'select fencepost.signal_run($1, null)', [run.id]), 'JE003')
    await run.complete('a')
    await refused(signal(run, 's'), 'JE004')
    await refused(one(db(), `select fencepost.signal_run(0, 's')`), 'JE002')
  })

  it('in a run that waits for a signal and a job at once', async () => {
    const run = await begin(db(), {
      s: { kind: 'signal', signal: 's' },
      a: {},
      end: { after: ['s', 'a'] },
    })
    expect(await run.status()).toBe('running')
    const job = await run.claim('a')
    await signal(run, 's')
    await complete(db(), job)
    expect((await run.task('end')).status).toBe('queued')
  })
})
