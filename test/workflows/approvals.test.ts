import { afterEach, describe, expect, it } from 'vitest'
import { json } from '../../src/database/database.ts'
import { moveClock, restoreClock } from '../support/clock.ts'
import { claim, places } from '../support/engine.ts'
import { begin, expectSound, type Run, settleDue } from '../support/runs.ts'
import { ownDatabase } from '../support/server.ts'
import { column, one, refused } from '../support/sql.ts'

const database = ownDatabase()
const db = () => database.db
afterEach(async () => {
  await expectSound(db())
  await restoreClock(db())
})

const approve = (id: number) => one(db(), `select fencepost.approve($1, 'ada')`, [id])
const reject = (id: number) => one(db(), `select fencepost.reject($1, 'ada', 'too dear')`, [id])
const decisions = (run: Run) =>
  column<string>(db(), 'select status from fencepost.approvals where run_id = $1 order by id', [
    run.id,
  ])
const gate = (id: number, expires: string | null = null) =>
  one<number>(db(), `select fencepost.request_approval($1, 'look at it', $2)`, [id, expires])

describe('an approval', () => {
  it('approved: the decision is its output, as it was given', async () => {
    const run = await begin(db(), {
      ok: { kind: 'approval', reason: 'is it safe?' },
      end: { after: ['ok'] },
    })
    const id = await run.approval('ok')
    expect(
      await db().query(
        'select task, workflow, status, reason, requested_by, is_gate, expires_at from fencepost.approvals where id = $1',
        [id],
      ),
    ).toEqual([
      {
        task: 'ok',
        workflow: run.workflow,
        status: 'pending',
        reason: 'is it safe?',
        requested_by: 'workflow',
        is_gate: false,
        expires_at: null,
      },
    ])
    await one(db(), 'select fencepost.approve($1, $2, $3, $4)', [
      id,
      'ada',
      'fine',
      json({ limit: null, list: [{ x: null }] }),
    ])
    expect((await run.task('ok')).output).toEqual({
      approved: true,
      decision: 'approved',
      decided_by: 'ada',
      comment: 'fine',
      decided_at: expect.stringMatching(/\+00:00$/),
      data: { limit: null, list: [{ x: null }] },
    })
    expect(await run.statuses()).toEqual({ ok: 'completed', end: 'queued' })
    expect(await run.events()).toEqual(['run.started', 'approval.requested', 'approval.decided'])
  })

  it.each([
    ['fail', 'failed', 'pending', 'failed'],
    ['skip', 'skipped', 'skipped', 'completed'],
    ['continue', 'completed', 'queued', 'running'],
  ])(
    'rejected with on_reject %s: the task is %s, its child %s, the run %s',
    async (on_reject, task, child, status) => {
      const run = await begin(db(), { ok: { kind: 'approval', on_reject }, end: { after: ['ok'] } })
      await reject(await run.approval('ok'))
      expect(await run.statuses()).toEqual({ ok: task, end: child })
      expect(await run.status()).toBe(status)
      expect(await run.task('ok')).toMatchObject({
        error: 'rejected by ada: too dear',
        output: { approved: false, decision: 'rejected', decided_by: 'ada', comment: 'too dear' },
      })
    },
  )

  it.each([
    ['reject', 'fail', 'failed'],
    ['reject', 'skip', 'skipped'],
    ['reject', 'continue', 'completed'],
    ['approve', 'fail', 'completed'],
    ['fail', 'fail', 'failed'],
    ['fail', 'skip', 'failed'],
    ['fail', 'continue', 'failed'],
  ])('expired with on_expiry %s and on_reject %s is %s', async (on_expiry, on_reject, expected) => {
    const run = await begin(db(), {
      ok: { kind: 'approval', expires_after: '1 hour', on_expiry, on_reject },
    })
    await moveClock(db(), '59 min')
    expect(await settleDue(db())).toBe(0)
    await moveClock(db(), '2 min')
    expect(await settleDue(db())).toBe(1)
    expect((await run.task('ok')).status).toBe(expected)
    expect(await decisions(run)).toEqual(['expired'])
    expect((await run.task('ok')).output).toMatchObject({
      approved: on_expiry === 'approve',
      decision: 'expired',
    })
  })

  it('is decided once', async () => {
    const run = await begin(db(), { ok: { kind: 'approval' } })
    const id = await run.approval('ok')
    await approve(id)
    expect((await refused(approve(id), 'JE004')).message).toContain('approved already')
    await refused(reject(id), 'JE004')
    await refused(approve(0), 'JE002')
    await refused(one(db(), 'select fencepost.reject(null)'), 'JE002')
  })

  it('in parallel branches: one does not stand for the other', async () => {
    const run = await begin(db(), {
      a: { kind: 'approval' },
      b: { kind: 'approval' },
      end: { after: ['a', 'b'] },
    })
    await approve(await run.approval('b'))
    expect(await run.statuses()).toEqual({ a: 'waiting', b: 'completed', end: 'pending' })
    await approve(await run.approval('a'))
    expect(await run.statuses()).toMatchObject({ end: 'queued' })
  })

  it('is withdrawn when its run is cancelled, and cannot be decided then', async () => {
    const run = await begin(db(), { ok: { kind: 'approval' } })
    const id = await run.approval('ok')
    await run.call('cancel_run')
    expect(await decisions(run)).toEqual(['withdrawn'])
    await refused(approve(id), 'JE004')
  })

  it('is too late by the clock, also before the housekeeping comes to it', async () => {
    const run = await begin(db(), {
      ok: { kind: 'approval', expires_after: '1 hour', on_expiry: 'approve' },
      a: {},
    })
    await gate((await run.task('a')).id, '1 hour')
    await moveClock(db(), '59 min')
    const ids = [await run.approval('ok'), await run.approval('a')]
    await moveClock(db(), '1 min')
    for (const id of ids)
      for (const call of ['approve', 'reject'])
        expect(
          (await refused(one(db(), `select fencepost.${call}($1)`, [id]), 'JE004')).message,
        ).toContain('has expired')
    await settleDue(db())
    expect(await run.statuses()).toEqual({ ok: 'completed', a: 'failed' })
  })

  it('can be given while the run is paused, but does not expire', async () => {
    const run = await begin(db(), {
      ok: { kind: 'approval', expires_after: '1 hour' },
      late: { kind: 'approval', expires_after: '1 hour' },
      end: { after: ['ok'] },
    })
    await run.call('pause_run')
    await moveClock(db(), '2 hours')
    expect(await settleDue(db())).toBe(0)
    await approve(await run.approval('ok'))
    expect(await run.statuses()).toEqual({ ok: 'completed', late: 'waiting', end: 'pending' })
    await run.call('resume_run')
    expect(await run.statuses()).toMatchObject({ end: 'queued' })
    expect(await settleDue(db())).toBe(1)
  })

  it('two that expire at once, the first of which undoes the run', async () => {
    const spec = { kind: 'approval', expires_after: '1 hour' }
    const run = await begin(db(), { a: spec, b: spec }, {}, { on_failure: 'compensate' })
    await moveClock(db(), '2 hours')
    expect(await settleDue(db())).toBe(1)
    expect(await decisions(run)).toEqual(['expired', 'withdrawn'])
    expect(await run.statuses()).toEqual({ a: 'failed', b: 'cancelled' })
    expect(await run.status()).toBe('compensated')
  })
})

describe('request_approval', () => {
  it('before a pending task: it waits for its parents and for the gate, whichever is last', async () => {
    for (const gateFirst of [true, false]) {
      const run = await begin(db(), { a: {}, b: { after: ['a'] } })
      const id = await gate((await run.task('b')).id)
      expect((await run.task('b')).approval_id).toBe(id)
      if (gateFirst) await approve(id)
      await run.complete('a')
      await expectSound(db())
      if (!gateFirst) {
        expect(await run.statuses()).toEqual({ a: 'completed', b: 'pending' })
        await approve(id)
      }
      expect(await run.statuses()).toEqual({ a: 'completed', b: 'queued' })
      expect((await run.task('b')).approval_id).toBeNull()
    }
  })

  it('before a queued task: no worker gets it until then', async () => {
    const run = await begin(db(), { a: {} })
    const task = await run.task('a')
    const id = await gate(task.id)
    expect(await places(db(), Number(task.job_id))).toEqual(['parked'])
    expect(await claim(db(), `${run.workflow}.a`)).toEqual([])
    expect(
      await db().query('select is_gate, reason, task from fencepost.approvals where id = $1', [id]),
    ).toEqual([{ is_gate: true, reason: 'look at it', task: 'a' }])
    await approve(id)
    await run.complete('a')
    expect(await run.status()).toBe('completed')
  })

  it('before a task that waits for its retry', async () => {
    const run = await begin(db(), { a: {} })
    await run.fail('a')
    const id = await gate((await run.task('a')).id)
    await approve(id)
    expect(await run.claimAll('a')).toEqual([]) // of its wait nothing is lost
    await moveClock(db(), '1 day')
    await one(db(), 'select fencepost_private.promote()')
    expect((await run.claim('a')).attempt).toBe(2)
  })

  it.each(['pending', 'queued'])(
    'a gate that is shut fails a %s task and takes its job along',
    async (state) => {
      const run = await begin(db(), {
        a: {},
        b: { after: ['a'], on_failure: 'continue' },
        c: { after: ['b'] },
      })
      if (state === 'queued') await run.complete('a')
      const task = await run.task('b')
      await reject(await gate(task.id))
      expect(await run.task('b')).toMatchObject({
        status: 'failed',
        error: 'rejected by ada: too dear',
      })
      if (state === 'queued') expect(await places(db(), Number(task.job_id))).toEqual([])
      else await run.complete('a')
      expect(await run.statuses()).toMatchObject({ b: 'failed', c: 'queued' })
    },
  )

  it('a gate expires', async () => {
    const run = await begin(db(), { a: {} })
    await gate((await run.task('a')).id, '1 hour')
    await moveClock(db(), '2 hours')
    expect(await settleDue(db())).toBe(1)
    expect(await run.task('a')).toMatchObject({ status: 'failed', error: 'expired by the clock' })
    expect(await decisions(run)).toEqual(['expired'])
  })

  it('and a pause, in either order', async () => {
    for (const approveFirst of [true, false]) {
      const run = await begin(db(), { a: {} })
      const id = await gate((await run.task('a')).id)
      await run.call('pause_run')
      if (approveFirst) await approve(id)
      await expectSound(db())
      expect(await run.claimAll('a')).toEqual([])
      await run.call('resume_run')
      await expectSound(db())
      if (!approveFirst) {
        expect(await run.claimAll('a')).toEqual([])
        await approve(id)
      }
      await run.complete('a')
    }
  })

  it('is refused for what runs, waits, has ended or has a gate', async () => {
    const run = await begin(
      db(),
      {
        a: {},
        gated: {},
        t: { kind: 'timer', delay: '1 hour' },
        m: { kind: 'map', over: '$.input.list' },
      },
      { list: [1] },
    )
    await run.claim('a')
    await refused(gate((await run.task('a')).id), 'JE004')
    await gate((await run.task('gated')).id)
    await refused(gate((await run.task('gated')).id), 'JE004')
    await refused(gate((await run.task('t')).id), 'JE004')
    const [item] = await run.items('m')
    expect((await refused(gate(Number(item?.id)), 'JE004')).message).toContain('item of a map')
    await refused(gate(0), 'JE002')
    await refused(gate((await run.task('a')).id, '-1 s'), 'JE003')
    await refused(gate((await run.task('a')).id, '200 years'), 'JE003')
    await run.call('cancel_run')
    await refused(gate((await run.task('gated')).id), 'JE004')
  })

  it('is withdrawn with its task', async () => {
    const run = await begin(db(), { a: {}, b: { after: ['a'] } })
    await gate((await run.task('a')).id)
    await gate((await run.task('b')).id)
    await run.call('cancel_run')
    expect(await decisions(run)).toEqual(['withdrawn', 'withdrawn'])
  })
})
