import { describe, expect, it } from 'vitest'
import { freezeClock, moveClock, restoreClock } from '../support/clock.ts'
import {
  bury,
  claimOne,
  complete,
  enqueue,
  enqueueBatch,
  fail,
  freshType,
  settings,
  started,
} from '../support/engine.ts'
import { ownDatabase } from '../support/server.ts'
import { column, holds, one } from '../support/sql.ts'

const database = ownDatabase()
const db = () => database.db

const row = async (text: string, ...params: unknown[]) => (await db().query(text, params))[0]
const job = (id: number) => row('select * from fencepost.jobs where id = $1', id)

describe('jobs', () => {
  it('shows a job that waits', async () => {
    const type = freshType()
    const id = await enqueue(db(), type, {
      payload: { to: 'a@b.c' },
      priority: 8,
      idempotency_key: 'welcome:42',
      tenant: 'acme',
      headers: { traceparent: 'x' },
    })
    const seen = await job(id)
    expect(seen).toMatchObject({
      id,
      type,
      status: 'pending',
      attempts: 0,
      max_attempts: 5,
      priority: 8,
      payload: { to: 'a@b.c' },
      result: null,
      last_error: null,
      leased_until: null,
      worker: null,
      idempotency_key: 'welcome:42',
      tenant: 'acme',
      headers: { traceparent: 'x' },
    })
    expect(seen?.available_at).toEqual(seen?.created_at)
    expect(seen?.updated_at).toEqual(seen?.created_at)
  })

  it('shows each status, and follows a job through its life', async () => {
    const type = freshType()
    const id = await enqueue(db(), type, { delay: '1 hour', max_attempts: 2 })
    expect(await job(id)).toMatchObject({ status: 'pending', max_attempts: 2 })
    expect(
      await holds(
        db(),
        `(select available_at - created_at = '1 hour' from fencepost.jobs where id = $1)`,
        [id],
      ),
    ).toBe(true)

    await moveClock(db(), '1 hour')
    const first = await claimOne(db(), type)
    expect(await job(id)).toMatchObject({ status: 'running', attempts: 1, worker: 'worker-1' })
    await fail(db(), first, 'smtp timeout')
    expect(await job(id)).toMatchObject({
      status: 'pending',
      attempts: 1,
      last_error: 'smtp timeout',
    })

    await moveClock(db(), '1 hour')
    const second = await claimOne(db(), type)
    await fail(db(), second, 'smtp down')
    expect(await job(id)).toMatchObject({
      status: 'dead_letter',
      attempts: 2,
      last_error: 'smtp down',
    })

    await db().query('select fencepost.replay($1)', [id])
    expect(await job(id)).toMatchObject({ status: 'pending', attempts: 0, last_error: 'smtp down' })
    const third = await claimOne(db(), type)
    await db().query('select fencepost.progress($1, $2, $3)', [id, third.token, '"half"'])
    expect(await job(id)).toMatchObject({ progress: 'half', token: 3 })
    await complete(db(), third, { sent: true })
    expect(await job(id)).toMatchObject({
      status: 'completed',
      attempts: 1,
      result: { sent: true },
      worker: 'worker-1',
    })
    await restoreClock(db())
  })

  it('shows jobs that were suspended, cancelled and discarded', async () => {
    const type = freshType()
    const waits = await started(db(), type)
    await db().query('select fencepost.suspend($1, $2, waits_for => $3)', [
      waits.job_id,
      waits.token,
      'approval',
    ])
    expect(await job(waits.job_id)).toMatchObject({
      status: 'waiting',
      waits_for: 'approval',
      attempts: 0,
    })
    const cancelled = await enqueue(db(), type)
    await db().query('select fencepost.cancel($1)', [cancelled])
    expect(await job(cancelled)).toMatchObject({ status: 'cancelled', attempts: 0 })
    const dead = await started(db(), type)
    await bury(db(), dead, 'bad input')
    await db().query('select fencepost.discard($1)', [dead.job_id])
    expect(await job(dead.job_id)).toMatchObject({
      status: 'discarded',
      attempts: 1,
      last_error: 'bad input',
    })
  })

  it('reads one place for one status, and one index entry a place for one job', async () => {
    const plan = (where: string) =>
      db().transaction(async (tx) => {
        await tx.query('set local enable_seqscan = off')
        return (
          await column<string>(tx, `explain select * from fencepost.jobs where ${where}`)
        ).join('\n')
      })
    const dead = await plan(`status = 'dead_letter'`)
    expect(dead).toContain('on dead_letter')
    expect(dead).not.toMatch(/on (ready|delayed|suspended|parked)\b/)
    const byId = await plan('id = 1')
    const indexes = [
      'ready_pkey',
      'delayed_pkey',
      'lease_pkey',
      'dead_letter_pkey',
      'job_0_pkey',
      'event_0_job_id_idx',
    ]
    for (const index of indexes) expect(byId).toContain(index)
    expect(byId).not.toContain('Seq Scan')
  })
})

describe('attempts', () => {
  it('shows those that ended and the one that runs, by token', async () => {
    const type = freshType()
    await settings(db(), type, { backoff_base: '0' })
    const first = await started(db(), type)
    await fail(db(), first, 'no luck')
    const second = await claimOne(db(), type)
    const attempts = await db().query(
      'select attempt, token, worker, outcome, error, started_at is not null as began, finished_at is not null as ended from fencepost.attempts where job_id = $1 order by token',
      [first.job_id],
    )
    expect(attempts).toEqual([
      {
        attempt: 1,
        token: 1,
        worker: 'worker-1',
        outcome: 'failed',
        error: 'no luck',
        began: true,
        ended: true,
      },
      {
        attempt: 2,
        token: 2,
        worker: 'worker-1',
        outcome: null,
        error: null,
        began: true,
        ended: false,
      },
    ])
    await complete(db(), second, 7)
    expect(
      await row(
        'select outcome, result, error from fencepost.attempts where job_id = $1 and token = 2',
        first.job_id,
      ),
    ).toEqual({
      outcome: 'completed',
      result: 7,
      error: null,
    })
  })
})

describe('job_events', () => {
  const history = (id: number) =>
    db().query(
      'select kind, attempt, worker, id is not null as stored from fencepost.job_events where job_id = $1 order by created_at, id',
      [id],
    )

  it('shows enqueue and start also where they are not stored', async () => {
    const type = freshType()
    const done = await started(db(), type)
    await complete(db(), done)
    expect(await history(done.job_id)).toEqual([
      { kind: 'job.enqueued', attempt: null, worker: null, stored: false },
      { kind: 'job.started', attempt: 1, worker: 'worker-1', stored: false },
      { kind: 'job.completed', attempt: 1, worker: 'worker-1', stored: true },
    ])
    const running = await started(db(), type)
    expect((await history(running.job_id)).map((event) => event.kind)).toEqual([
      'job.enqueued',
      'job.started',
    ])
  })

  it('shows them once where they are', async () => {
    const type = freshType()
    await settings(db(), type, { publish_enqueued: true, publish_started: true })
    const done = await started(db(), type)
    await complete(db(), done)
    expect((await history(done.job_id)).map(({ kind, stored }) => `${kind} ${stored}`)).toEqual([
      'job.enqueued true',
      'job.started true',
      'job.completed true',
    ])
  })
})

describe('dead_letter', () => {
  it('shows the final error with what was enqueued', async () => {
    const type = freshType()
    const dead = await started(db(), type, { payload: { n: 1 } })
    await db().query('select fencepost.fail($1, $2, $3, permanent => true, details => $4)', [
      dead.job_id,
      dead.token,
      'bad',
      '{"stack":"…"}',
    ])
    expect(
      await row('select * from fencepost.dead_letter where job_id = $1', dead.job_id),
    ).toMatchObject({
      type,
      final_error: 'bad',
      attempts: 1,
      details: { stack: '…' },
      payload: { n: 1 },
    })
  })
})

describe('workers and leases', () => {
  it('counts what each worker runs', async () => {
    const type = freshType()
    await enqueueBatch(db(), type, 3)
    await db().query('select fencepost.claim($1, $2, 2)', ['counted', [type]])
    expect(
      await row(
        'select name, status, types, active_jobs from fencepost.workers where name = $1',
        'counted',
      ),
    ).toEqual({
      name: 'counted',
      status: 'active',
      types: [type],
      active_jobs: 2,
    })
  })

  it('calls a silent worker lost by the clock, whether or not somebody keeps house', async () => {
    const status = () =>
      one<string>(db(), `select status from fencepost.workers where name = 'silent'`)
    await db().query(`select fencepost.register_worker('silent', 'here', 0, '{}', '30 s')`)
    await moveClock(db(), '29 seconds')
    expect(await status()).toBe('active')
    await moveClock(db(), '2 seconds')
    expect(await status()).toBe('lost')
    await db().query(`select fencepost.heartbeat('silent')`)
    expect(await status()).toBe('active')
    await restoreClock(db())
  })

  it('says until when a lease cannot be taken back: the least of heartbeat, silence about the job, and deadline', async () => {
    await freezeClock(db())
    const type = freshType()
    const until = async (id: number) =>
      one<string>(
        db(),
        'select (leased_until - fencepost_private.now())::text from fencepost.leases where job_id = $1',
        [id],
      )
    const worker = await one<number>(
      db(),
      `select fencepost.register_worker('until', types => $1)`,
      [[type]],
    )
    const held = await started(db(), type, {}, 'until')
    const brief = await started(db(), type, { timeout: '10 seconds' }, 'until')
    expect(await until(held.job_id)).toBe('00:00:30')
    expect(await until(brief.job_id)).toBe('00:00:10')

    await moveClock(db(), '20 seconds')
    await db().query('select fencepost.heartbeat($1)', ['until'])
    expect(await until(held.job_id)).toBe('00:00:30')
    await moveClock(db(), '30 seconds')
    await db().query('select fencepost.heartbeat($1)', ['until'])
    await moveClock(db(), '20 seconds')
    await db().query('select fencepost.heartbeat($1)', ['until'])
    expect(await until(held.job_id)).toBe('00:00:20') // 3 ttls after the claim: the worker never named it
    await db().query('select fencepost.stop_worker($1)', [worker])
    expect(await until(held.job_id)).toBe('00:00:00')
    await restoreClock(db())
  })
})

describe('types', () => {
  it('shows the settings', async () => {
    const type = freshType()
    await enqueue(db(), type)
    expect(
      await row(
        'select type, paused, max_attempts, timeout, max_running, accept from fencepost.types where type = $1',
        type,
      ),
    ).toEqual({
      type,
      paused: false,
      max_attempts: 5,
      timeout: null,
      max_running: null,
      accept: true,
    })
  })
})
