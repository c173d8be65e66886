import { afterEach, describe, expect, it } from 'vitest'
import { moveClock, restoreClock } from '../support/clock.ts'
import { claim, complete, fail, places } from '../support/engine.ts'
import { begin, drain, expectSound, type Run } from '../support/runs.ts'
import { ownDatabase } from '../support/server.ts'
import { Session } from '../support/sessions.ts'
import { one, refused } from '../support/sql.ts'

const database = ownDatabase()
const db = () => database.db
afterEach(async () => {
  await expectSound(db())
  await restoreClock(db())
})

/** Where the job of a task is. */
async function place(run: Run, task: string): Promise<string[]> {
  return places(db(), Number((await run.task(task)).job_id))
}

describe('pause_run', () => {
  it('parks what waits, lets finish what runs, starts nothing; resume_run goes on', async () => {
    const run = await begin(db(), { a: {}, b: {}, c: { after: ['a'] }, d: { after: ['b'] } })
    const job = await run.claim('a')
    await run.call('pause_run', 'audit')
    expect(await run.row()).toMatchObject({ status: 'paused', reason: 'audit' })
    await complete(db(), job)
    expect(await run.statuses()).toEqual({
      a: 'completed',
      b: 'queued',
      c: 'pending',
      d: 'pending',
    })
    expect(await place(run, 'b')).toEqual(['parked'])
    expect(await run.claimAll('b')).toEqual([])
    await expectSound(db())
    await run.call('resume_run')
    expect(await run.row()).toMatchObject({ status: 'running', reason: null })
    expect(await drain(db(), run.workflow, ['b', 'c', 'd'])).toHaveLength(3)
    expect(await run.events()).toEqual([
      'run.started',
      'run.paused',
      'run.resumed',
      'run.completed',
    ])
  })

  it('twice changes nothing; resume needs a pause', async () => {
    const run = await begin(db(), { a: {} })
    await refused(run.call('resume_run'), 'JE004')
    await run.call('pause_run', 'first')
    await run.call('pause_run', 'second')
    expect((await run.row()).reason).toBe('first')
    await run.call('resume_run')
    await refused(run.call('resume_run'), 'JE004')
    await run.complete('a')
    await refused(run.call('pause_run'), 'JE004')
    await refused(one(db(), 'select fencepost.pause_run(0)'), 'JE002')
    await refused(one(db(), 'select fencepost.resume_run(0)'), 'JE002')
  })

  it('takes nothing from the wait of a retry', async () => {
    const run = await begin(db(), { a: {}, b: {} })
    const [first, second] = [await run.claim('a'), await run.claim('b')]
    await fail(db(), first)
    await run.call('pause_run')
    await fail(db(), second)
    const due = () =>
      db().query(
        `select id, available_at, status from fencepost.jobs where id = any ($1) order by id`,
        [[first.job_id, second.job_id]],
      )
    const before = await due()
    await run.call('resume_run')
    expect(await due()).toEqual(before)
    expect([await place(run, 'a'), await place(run, 'b')]).toEqual([['delayed'], ['delayed']])
    expect(await run.claimAll('a')).toEqual([])
    await moveClock(db(), '1 day')
    await one(db(), 'select fencepost_private.promote()')
    expect((await run.claim('a')).attempt).toBe(2)
    expect((await run.claim('b')).attempt).toBe(2)
  })

  it('holds a retry that comes up meanwhile, and one that waited already', async () => {
    const run = await begin(db(), { a: {}, b: {} })
    expect(await run.fail('b')).toBe('retry')
    const job = await run.claim('a')
    await run.call('pause_run')
    expect(await fail(db(), job)).toBe('retry')
    await moveClock(db(), '1 day')
    expect(await claim(db(), [`${run.workflow}.a`, `${run.workflow}.b`], 9)).toEqual([])
    await expectSound(db())
    await run.call('resume_run')
    expect((await run.claim('a')).attempt).toBe(2)
    expect((await run.claim('b')).attempt).toBe(2)
  })

  it('holds what is given back, taken back, resumed or replayed meanwhile', async () => {
    const run = await begin(db(), { released: {}, lost: {}, slept: {}, dead: {} })
    await run.bury('dead')
    const sleeper = await run.claim('slept')
    await one(db(), `select fencepost.suspend($1, $2, delay => '1 min')`, [
      sleeper.job_id,
      sleeper.token,
    ])
    const released = await run.claim('released')
    await claim(db(), `${run.workflow}.lost`, 1, 'doomed')
    await run.call('pause_run')

    await one(db(), 'select fencepost.release($1, $2)', [released.job_id, released.token])
    await db().query(
      `update fencepost_private.worker set status = 'lost', ended_at = clock_timestamp() where name = 'doomed'`,
    )
    await one(db(), 'select fencepost_private.reclaim()')
    await one(db(), 'select fencepost.resume($1)', [sleeper.job_id])
    await one(db(), 'select fencepost.replay_task($1)', [(await run.task('dead')).id])
    await expectSound(db())
    for (const task of ['released', 'lost', 'slept', 'dead'])
      expect(await place(run, task), task).toEqual(['parked'])
    await run.call('resume_run')
    expect(await drain(db(), run.workflow, ['released', 'lost', 'slept', 'dead'])).toHaveLength(4)
    expect(await run.status()).toBe('completed')
  })

  it('a failed run, in which a replay waits for the resume', async () => {
    const run = await begin(db(), { a: {} })
    await run.bury('a')
    await run.call('pause_run')
    expect(await run.status()).toBe('paused')
    await run.call('resume_run')
    expect(await run.row()).toMatchObject({ status: 'failed', finished_at: expect.any(Date) })
  })

  it('finds a job that is promoted at the same moment', async () => {
    const run = await begin(db(), { a: {} })
    await run.fail('a')
    await moveClock(db(), '1 hour')
    await using promoter = await Session.open(database.url)
    await using operator = await Session.open(database.url)
    await promoter.begin()
    await promoter.query('select fencepost_private.promote()')
    const paused = await operator.blocks('select fencepost.pause_run($1)', [run.id])
    await promoter.commit()
    await paused.answer
    expect(await place(run, 'a')).toEqual(['parked'])
  })
})

describe('cancel_run', () => {
  it('ends what waits and tells what runs', async () => {
    const run = await begin(db(), {
      a: {},
      b: {},
      retried: {},
      slept: {},
      c: { after: ['a', 'b'] },
      t: { kind: 'timer', delay: '1 hour' },
      s: { kind: 'signal', signal: 's' },
      ok: { kind: 'approval' },
    })
    await run.fail('retried')
    const sleeper = await run.claim('slept')
    await one(db(), `select fencepost.suspend($1, $2, delay => '1 min')`, [
      sleeper.job_id,
      sleeper.token,
    ])
    const job = await run.claim('a')
    await using listener = await Session.open(database.url)
    const heard = await listener.listen('fencepost')
    await run.call('cancel_run', 'changed my mind')
    expect(await run.row()).toMatchObject({
      status: 'cancelled',
      reason: 'changed my mind',
      finished_at: null,
    })
    expect(await run.statuses()).toEqual({
      a: 'running',
      b: 'cancelled',
      retried: 'cancelled',
      slept: 'cancelled',
      c: 'cancelled',
      t: 'cancelled',
      s: 'cancelled',
      ok: 'cancelled',
    })
    expect((await run.task('c')).error).toBe('changed my mind')
    await listener.query('select 1')
    expect(heard.map((text) => JSON.parse(text)).filter((each) => 'cancel' in each)).toEqual([
      { worker: expect.any(Number), cancel: [job.job_id] },
    ])
    expect(await fail(db(), job, 'aborted')).toBe('cancelled')
    expect(await run.statuses()).toMatchObject({ a: 'cancelled' })
    expect((await run.row()).finished_at).not.toBeNull()
    expect(await run.events()).toEqual(['run.started', 'approval.requested', 'run.cancelled'])
  })

  it('what completes in spite of it is completed, and starts nothing', async () => {
    const run = await begin(db(), { a: {}, b: { after: ['a'] } })
    const job = await run.claim('a')
    await run.call('cancel_run')
    await complete(db(), job, 'done')
    expect(await run.statuses()).toEqual({ a: 'completed', b: 'cancelled' })
    expect(await run.row()).toMatchObject({ status: 'cancelled', finished_at: expect.any(Date) })
  })

  it('a job that is given back, or whose worker died, ends then', async () => {
    const run = await begin(db(), { a: {}, b: {} })
    const job = await run.claim('a')
    await claim(db(), `${run.workflow}.b`, 1, 'mortal')
    await run.call('cancel_run')
    await one(db(), 'select fencepost.release($1, $2)', [job.job_id, job.token])
    await db().query(
      `update fencepost_private.worker set status = 'lost', ended_at = clock_timestamp() where name = 'mortal'`,
    )
    await one(db(), 'select fencepost_private.reclaim()')
    expect(await run.statuses()).toEqual({ a: 'cancelled', b: 'cancelled' })
  })

  it('during fan-in: the parents that were done stay so, the child never runs', async () => {
    const run = await begin(db(), { a: {}, b: {}, c: { after: ['a', 'b'] } })
    await run.complete('a')
    const last = await run.claim('b')
    await run.call('cancel_run')
    await complete(db(), last)
    expect(await run.statuses()).toEqual({ a: 'completed', b: 'completed', c: 'cancelled' })
  })

  it('twice changes nothing; a completed run is not cancelled, a failed or paused one is', async () => {
    const run = await begin(db(), { a: {}, b: { after: ['a'] } })
    await run.bury('a')
    await run.call('pause_run')
    await run.call('cancel_run')
    await run.call('cancel_run', 'again')
    expect(await run.row()).toMatchObject({ status: 'cancelled', reason: null })
    expect(await run.statuses()).toEqual({ a: 'failed', b: 'cancelled' })
    await refused(
      one(db(), 'select fencepost.replay_task($1)', [(await run.task('a')).id]),
      'JE004',
    )
    await refused(run.call('retry_run'), 'JE004')
    await refused(run.call('pause_run'), 'JE004')
    await refused(one(db(), 'select fencepost.cancel_run(0)'), 'JE002')

    const done = await begin(db(), { a: {} })
    await done.complete('a')
    await refused(done.call('cancel_run'), 'JE004')
  })

  it('finds a job that is promoted, or moved to another lane, at the same moment', async () => {
    const moves = ['select fencepost_private.promote()', 'select fencepost.reprioritize($1, 9)']
    for (const move of moves) {
      const run = await begin(db(), { a: {} })
      if (move === moves[0]) {
        await run.fail('a')
        await moveClock(db(), '1 hour')
      }
      const { job_id } = await run.task('a')
      await using mover = await Session.open(database.url)
      await using operator = await Session.open(database.url)
      await mover.begin()
      await mover.query(move, move === moves[0] ? [] : [job_id])
      const cancelled = await operator.blocks('select fencepost.cancel_run($1)', [run.id])
      await mover.commit()
      await cancelled.answer
      expect(await run.statuses()).toEqual({ a: 'cancelled' })
    }
  })
})
