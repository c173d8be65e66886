import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { moveClock, restoreClock } from '../support/clock.ts'
import { type Claimed, complete } from '../support/engine.ts'
import { begin, expectSound, publish, type Run, settleDue, start } from '../support/runs.ts'
import { ownDatabase } from '../support/server.ts'
import { Session } from '../support/sessions.ts'
import { one } from '../support/sql.ts'

// Two sessions, stepped through the moments in which one could miss what the other does.

const database = ownDatabase()
const db = () => database.db
let first: Session
let second: Session
beforeAll(async () => {
  first = await Session.open(database.url)
  second = await Session.open(database.url)
})
afterAll(async () => {
  for (const session of [first, second]) await session[Symbol.asyncDispose]()
})
afterEach(async () => {
  await expectSound(db())
  await restoreClock(db())
})

const COMPLETE = 'select fencepost.complete($1, $2)'

/** A statement and its parameters. */
type Call = readonly [text: string, params: readonly unknown[]]

const completion = (job: Claimed | undefined): Call => [COMPLETE, [job?.job_id, job?.token]]
const burial = (job: Claimed): Call => [
  'select fencepost.fail($1, $2, $3, permanent => true)',
  [job.job_id, job.token, 'no use'],
]

/** One transaction does the first call; the second waits for it, and goes on when it ends. */
async function interleave(
  early: Call,
  late: Call,
  end: 'commit' | 'rollback' = 'commit',
): Promise<void> {
  await first.begin()
  await first.query(...early)
  const waiting = await second.blocks(...late)
  await first[end]()
  await waiting.answer
}

/** How often a task was enqueued. */
const jobsOf = (run: Run, task: string) =>
  one<number>(
    db(),
    'select count(*)::int from fencepost_private.job b join fencepost.tasks t on t.id = b.task_id where t.run_id = $1 and t.name = $2',
    [run.id, task],
  )

describe('two parents that finish at the same instant', () => {
  it.each([
    ['a', 'b'],
    ['b', 'a'],
  ])('%s before %s: the child starts exactly once', async (earlier, later) => {
    const run = await begin(db(), { a: {}, b: {}, c: { after: ['a', 'b'] } })
    const jobs = { a: await run.claim('a'), b: await run.claim('b') }
    await interleave(completion(jobs[earlier as 'a']), completion(jobs[later as 'a']))
    expect(await run.statuses()).toEqual({ a: 'completed', b: 'completed', c: 'queued' })
    expect(await jobsOf(run, 'c')).toBe(1)
  })

  it('the first is rolled back: the child waits for it', async () => {
    const run = await begin(db(), { a: {}, b: {}, c: { after: ['a', 'b'] } })
    const [a, b] = [await run.claim('a'), await run.claim('b')]
    await interleave(completion(a), completion(b), 'rollback')
    expect(await run.statuses()).toEqual({ a: 'running', b: 'completed', c: 'pending' })
    await complete(db(), a)
    expect(await jobsOf(run, 'c')).toBe(1)
  })

  it('one of them fails: the child never starts', async () => {
    const run = await begin(db(), { a: {}, b: {}, c: { after: ['a', 'b'] } })
    const [a, b] = [await run.claim('a'), await run.claim('b')]
    await interleave(burial(a), completion(b))
    expect(await run.statuses()).toEqual({ a: 'failed', b: 'completed', c: 'pending' })
  })

  it('the last two items of a map', async () => {
    const run = await begin(
      db(),
      { m: { kind: 'map', over: '$.input.list' }, end: { after: ['m'] } },
      { list: [1, 2] },
    )
    const [a, b] = await run.claimAll('m')
    await interleave(completion(a), completion(b))
    expect(await run.statuses()).toEqual({ m: 'completed', end: 'queued' })
    expect(await jobsOf(run, 'end')).toBe(1)
  })

  it('child runs of one parent run', async () => {
    const workflow = await publish(db(), { x: {} })
    const call = { kind: 'workflow', workflow }
    const run = await begin(db(), { a: call, b: call, end: { after: ['a', 'b'] } })
    const [inner, other] = [await run.child('a', workflow), await run.child('b', workflow)]
    const [a, b] = await inner.claimAll('x')
    await interleave(completion(a), completion(b))
    expect([await inner.status(), await other.status()]).toEqual(['completed', 'completed'])
    expect(await jobsOf(run, 'end')).toBe(1)
  })
})

describe('complete and', () => {
  it('cancel_run, whichever is first', async () => {
    for (const cancelFirst of [true, false]) {
      const run = await begin(db(), { a: {}, b: { after: ['a'] } })
      const job = await run.claim('a')
      const done = completion(job)
      const cancelled: Call = ['select fencepost.cancel_run($1)', [run.id]]
      await (cancelFirst ? interleave(cancelled, done) : interleave(done, cancelled))
      expect(await run.statuses()).toEqual({ a: 'completed', b: 'cancelled' })
      expect(await run.row()).toMatchObject({ status: 'cancelled', finished_at: expect.any(Date) })
      await expectSound(db())
    }
  })

  it('pause_run, whichever is first: nothing of a paused run can be claimed', async () => {
    for (const pauseFirst of [true, false]) {
      const run = await begin(db(), { a: {}, b: { after: ['a'] } })
      const job = await run.claim('a')
      const done = completion(job)
      const paused: Call = ['select fencepost.pause_run($1)', [run.id]]
      await (pauseFirst ? interleave(paused, done) : interleave(done, paused))
      expect(await run.statuses()).toEqual({ a: 'completed', b: pauseFirst ? 'pending' : 'queued' })
      expect(await run.claimAll('b')).toEqual([])
      await expectSound(db())
      await run.call('resume_run')
      expect(await run.claimAll('b')).toHaveLength(1)
    }
  })

  it('request_approval of the child, whichever is first', async () => {
    for (const gateFirst of [true, false]) {
      const run = await begin(db(), { a: {}, b: { after: ['a'] } })
      const job = await run.claim('a')
      const done = completion(job)
      const gated: Call = ['select fencepost.request_approval($1)', [(await run.task('b')).id]]
      await (gateFirst ? interleave(gated, done) : interleave(done, gated))
      expect(await run.claimAll('b')).toEqual([])
      await one(db(), 'select fencepost.approve($1)', [await run.approval('b')])
      expect(await run.claimAll('b')).toHaveLength(1)
    }
  })

  it('a signal for the child', async () => {
    for (const signalFirst of [true, false]) {
      const run = await begin(db(), { a: {}, s: { kind: 'signal', signal: 's', after: ['a'] } })
      const job = await run.claim('a')
      const done = completion(job)
      const sent: Call = [`select fencepost.signal_run($1, 's')`, [run.id]]
      await (signalFirst ? interleave(sent, done) : interleave(done, sent))
      expect(await run.status()).toBe('completed')
    }
  })

  it('a claim that is open while its run is cancelled or paused', async () => {
    for (const call of ['cancel_run', 'pause_run']) {
      const run = await begin(db(), { a: {} })
      await first.begin()
      const [job] = await first.query<{ job_id: number; token: number }>(
        'select job_id, token from fencepost.claim($1, $2, 1)',
        ['w', [`${run.workflow}.a`]],
      )
      const waiting = await second.blocks(`select fencepost.${call}($1)`, [run.id])
      await first.commit()
      await waiting.answer
      expect(await run.statuses()).toEqual({ a: 'running' })
      expect(
        await one(
          db(),
          'select cancel_requested_at is not null from fencepost_private.lease where id = $1',
          [job?.job_id],
        ),
      ).toBe(call === 'cancel_run')
      await expectSound(db())
      await one(db(), COMPLETE, [job?.job_id, job?.token])
    }
  })
})

describe('decisions', () => {
  const approval = { kind: 'approval', expires_after: '1 hour' }

  it('approve and approve: one of them', async () => {
    const run = await begin(db(), { ok: approval, end: { after: ['ok'] } })
    const id = await run.approval('ok')
    const by = (who: string): Call => ['select fencepost.approve($1, $2)', [id, who]]
    await expect(interleave(by('ada'), by('bob'))).rejects.toMatchObject({ code: 'JE004' })
    expect((await run.task('ok')).output).toMatchObject({ decided_by: 'ada' })
    expect(await jobsOf(run, 'end')).toBe(1)
  })

  it('approve before the expiry: the housekeeping does not wait, and finds nothing', async () => {
    const run = await begin(db(), { ok: approval })
    const id = await run.approval('ok')
    await first.begin()
    await first.query('select fencepost.approve($1)', [id])
    await moveClock(db(), '2 hours')
    expect(await settleDue(db())).toBe(0)
    await first.commit()
    expect(await settleDue(db())).toBe(0)
    expect((await run.task('ok')).output).toMatchObject({ approved: true })
  })

  it('the expiry before approve: the person is told', async () => {
    const run = await begin(db(), { ok: approval })
    await moveClock(db(), '2 hours')
    const late: Call = ['select fencepost.approve($1)', [await run.approval('ok')]]
    await expect(
      interleave(['select fencepost_private.settle_due_runs()', []], late),
    ).rejects.toMatchObject({ code: 'JE004', message: expect.stringContaining('expired already') })
    expect((await run.task('ok')).status).toBe('failed')
  })
})

describe('replays', () => {
  it('replay and replay: once', async () => {
    const run = await begin(db(), { a: {} })
    await run.bury('a')
    const replay: Call = ['select fencepost.replay_task($1)', [(await run.task('a')).id]]
    await expect(interleave(replay, replay)).rejects.toMatchObject({ code: 'JE004' })
    expect(await run.claimAll('a')).toHaveLength(1)
  })

  it('replay after cancel_run is refused, before it is cancelled too', async () => {
    for (const cancelFirst of [true, false]) {
      const run = await begin(db(), { a: {} })
      await run.bury('a')
      const replayed: Call = ['select fencepost.replay_task($1)', [(await run.task('a')).id]]
      const cancelled: Call = ['select fencepost.cancel_run($1)', [run.id]]
      if (cancelFirst) {
        await expect(interleave(cancelled, replayed)).rejects.toMatchObject({ code: 'JE004' })
      } else {
        await interleave(replayed, cancelled)
      }
      expect(await run.statuses()).toEqual({ a: cancelFirst ? 'failed' : 'cancelled' })
    }
  })
})

describe('a run that somebody holds', () => {
  it('keeps nobody else from going on: an exchange hands its results back as busy', async () => {
    const workflow = await publish(db(), { a: {}, b: { after: ['a'] } })
    const runs = [
      await start(db(), workflow),
      await start(db(), workflow),
      await start(db(), workflow),
    ]
    const worker = await one<number>(db(), `select fencepost.register_worker('busy')`)
    const jobs = await db().query<{ job_id: number; token: number; run_id: number }>(
      'select job_id, token, run_id from fencepost.exchange($1, types => $2, max => 3)',
      [worker, [`${workflow}.a`]],
    )
    const [held, other, bad] = jobs
    if (!held || !other || !bad) throw new Error('three jobs are expected')
    const plain = await one<number>(db(), `select fencepost.enqueue('plain.work')`)
    const [alone] = await db().query<{ token: number }>(
      'select token from fencepost.exchange($1, types => $2, max => 1)',
      [worker, ['plain.work']],
    )

    await first.begin()
    await first.query('select fencepost.signal_run($1, $2)', [held.run_id, 'x'])
    const results = (completed: (typeof jobs)[number][], failed: (typeof jobs)[number][]) =>
      db().query(
        `select directive, job_id, token from fencepost.exchange($1, $2, $3, failed_ids => $4, failed_tokens => $5, failed_errors => $6, failed_permanent => $7)
         order by job_id`,
        [
          worker,
          completed.map((job) => job.job_id),
          completed.map((job) => job.token),
          failed.map((job) => job.job_id),
          failed.map((job) => job.token),
          failed.map(() => 'no use'),
          failed.map(() => true),
        ],
      )
    expect(
      await results(
        [held, other, { job_id: plain, token: Number(alone?.token), run_id: 0 }],
        [bad],
      ),
    ).toEqual([
      { directive: 'busy', job_id: held.job_id, token: held.token },
      { directive: 'dead_letter', job_id: bad.job_id, token: bad.token },
    ])
    expect(await results([], [held])).toEqual([
      { directive: 'busy', job_id: held.job_id, token: held.token },
    ])
    await first.commit()
    expect(await results([held], [])).toEqual([])
    const statuses = await Promise.all(runs.map(async (run) => [run.id, await run.statuses()]))
    expect(Object.fromEntries(statuses)).toEqual({
      [held.run_id]: { a: 'completed', b: 'queued' },
      [other.run_id]: { a: 'completed', b: 'queued' },
      [bad.run_id]: { a: 'failed', b: 'pending' },
    })
  })

  it('is passed over when leases are taken back, and taken back then', async () => {
    const workflow = await publish(db(), { a: {} })
    const [run, other] = [await start(db(), workflow), await start(db(), workflow)]
    await one(db(), `select count(*) from fencepost.claim('doomed', $1, 2)`, [[`${workflow}.a`]])
    await db().query(
      `update fencepost_private.worker set status = 'lost', ended_at = clock_timestamp() where name = 'doomed'`,
    )
    await first.begin()
    await first.query('select fencepost.signal_run($1, $2)', [run.id, 'x'])
    expect(await one(db(), 'select fencepost_private.reclaim()')).toBe(1)
    expect([(await run.task('a')).status, (await other.task('a')).status]).toEqual([
      'running',
      'queued',
    ])
    await first.commit()
    expect(await one(db(), 'select fencepost_private.reclaim()')).toBe(1)
    expect((await run.task('a')).status).toBe('queued')
  })

  it('is passed over by timers and by sleepers that are due', async () => {
    const run = await begin(db(), { t: { kind: 'timer', delay: '1 min' }, slept: {} })
    const job = await run.claim('slept')
    await one(db(), `select fencepost.suspend($1, $2, delay => '1 min')`, [job.job_id, job.token])
    await moveClock(db(), '2 min')
    await first.begin()
    await first.query('select fencepost.signal_run($1, $2)', [run.id, 'x'])
    expect(await settleDue(db())).toBe(0)
    expect(await one(db(), 'select fencepost_private.resume_due()')).toBe(0)
    await first.commit()
    expect(await settleDue(db())).toBe(1)
    expect(await one(db(), 'select fencepost_private.resume_due()')).toBe(1)
    expect((await run.claim('slept')).attempt).toBe(1)
  })

  it('a sleeper that is due and a run that is cancelled do not deadlock', async () => {
    const run = await begin(db(), { slept: {}, a: {} })
    const job = await run.claim('slept')
    await one(db(), `select fencepost.suspend($1, $2, delay => '1 min')`, [job.job_id, job.token])
    const held = await run.claim('a')
    await moveClock(db(), '2 min')
    await first.begin()
    await first.query(COMPLETE, [held.job_id, held.token])
    expect(await one(db(), 'select fencepost_private.resume_due()')).toBe(0)
    await first.query('select fencepost.cancel_run($1)', [run.id])
    await first.commit()
    expect(await run.statuses()).toEqual({ slept: 'cancelled', a: 'completed' })
  })
})

it('a child run that fails while its parent is cancelled', async () => {
  for (const cancelFirst of [true, false]) {
    const workflow = await publish(db(), { x: {} })
    const run = await begin(db(), { call: { kind: 'workflow', workflow } })
    const inner = await run.child('call', workflow)
    const failed = burial(await inner.claim('x'))
    const cancelled: Call = ['select fencepost.cancel_run($1)', [run.id]]
    await (cancelFirst ? interleave(cancelled, failed) : interleave(failed, cancelled))
    expect([await run.status(), await inner.status()]).toEqual(['cancelled', 'cancelled'])
    expect(await run.statuses()).toEqual({ call: cancelFirst ? 'cancelled' : 'failed' })
    await expectSound(db())
  }
})
