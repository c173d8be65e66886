import { afterEach, describe, expect, it } from 'vitest'
import { complete } from '../support/engine.ts'
import { begin, drain, expectSound, publish, Run, start } from '../support/runs.ts'
import { ownDatabase } from '../support/server.ts'
import { Session } from '../support/sessions.ts'
import { one, refused } from '../support/sql.ts'

const database = ownDatabase()
const db = () => database.db
afterEach(() => expectSound(db()))

describe('start_run', () => {
  it('carries tags, priority and tenant; defaults for the rest', async () => {
    const workflow = await publish(db(), { a: {}, b: { priority: 1 } })
    const run = await start(
      db(),
      workflow,
      { x: 1 },
      { tags: ['night', 'eu'], priority: 8, tenant: 'acme' },
    )
    expect(await run.row()).toMatchObject({
      tags: ['night', 'eu'],
      priority: 8,
      tenant: 'acme',
      input: { x: 1 },
      version: 1,
    })
    expect((await run.claim('a')).priority).toBe(8)
    expect((await run.claim('b')).priority).toBe(1)
    expect(await (await start(db(), workflow)).row()).toMatchObject({
      tags: [],
      priority: 5,
      tenant: null,
      input: {},
    })
  })

  it('in a transaction that is rolled back leaves nothing', async () => {
    const workflow = await publish(db(), { a: {} })
    let id = 0
    await expect(
      db().transaction(async (tx) => {
        id = (await start(tx, workflow)).id
        throw new Error('changed my mind')
      }),
    ).rejects.toThrow('changed my mind')
    expect(await db().query('select from fencepost.runs where id = $1', [id])).toEqual([])
    expect(await new Run(db(), id, workflow).claimAll('a')).toEqual([])
  })

  it('under a key gives the same run; with another input it is refused', async () => {
    const [workflow, other] = [await publish(db(), { a: {} }), await publish(db(), { a: {} })]
    const first = await start(db(), workflow, { n: 1 }, { idempotency_key: 'k' })
    expect((await start(db(), workflow, { n: 1 }, { idempotency_key: 'k' })).id).toBe(first.id)
    expect(
      (await refused(start(db(), workflow, { n: 2 }, { idempotency_key: 'k' }), 'JE005')).detail,
    ).toContain(String(first.id))
    expect((await start(db(), other, { n: 1 }, { idempotency_key: 'k' })).id).not.toBe(first.id)
    expect(
      (await start(db(), workflow, { n: 1 }, { idempotency_key: 'k', tenant: 'acme' })).id,
    ).not.toBe(first.id)
    await first.complete('a')
    expect((await start(db(), workflow, { n: 1 }, { idempotency_key: 'k' })).id).toBe(first.id)
    expect(await first.statuses()).toEqual({ a: 'completed' })
  })

  it.each(['commit', 'rollback'] as const)(
    'under a key that another session holds waits for its %s',
    async (end) => {
      const workflow = await publish(db(), { a: {} })
      await using holder = await Session.open(database.url)
      await using other = await Session.open(database.url)
      const call = `select fencepost.start_run('${workflow}', idempotency_key => 'k') as id`
      await holder.begin()
      const [first] = await holder.query<{ id: number }>(call)
      const waiting = await other.blocks<{ id: number }>(call)
      await holder[end]()
      const [second] = await waiting.answer
      expect(second?.id === first?.id).toBe(end === 'commit')
      expect(
        await one(db(), 'select count(*)::int from fencepost.runs where workflow = $1', [workflow]),
      ).toBe(1)
    },
  )

  it('does not wait for a publication, nor a publication for it', async () => {
    const workflow = await publish(db(), { a: {} })
    await db().transaction(async (tx) => {
      await publish(tx, { a: {}, b: {} }, {}, workflow)
      expect((await (await start(db(), workflow)).row()).version).toBe(1)
    })
    await db().transaction(async (tx) => {
      await start(tx, workflow)
      expect(await publish(db(), { a: {}, c: {} }, {}, workflow)).toBe(workflow)
    })
  })

  it('is refused without a workflow, with a priority out of range, with a key that is none', async () => {
    const workflow = await publish(db(), { a: {} })
    await refused(start(db(), 'no.such'), 'JE002')
    await refused(one(db(), 'select fencepost.start_run(null)'), 'JE002')
    await refused(start(db(), workflow, {}, { priority: 10 }), 'JE003')
    await refused(start(db(), workflow, {}, { idempotency_key: '' }), 'JE003')
    await refused(one(db(), `select fencepost.start_runs('no.such', array['{}'::jsonb])`), 'JE002')
  })
})

describe('restart_run', () => {
  const tasks = {
    a: {},
    b: { after: ['a'] },
    c: { after: ['b'] },
    x: { after: ['a'] },
    end: { after: ['c', 'x'] },
  }
  const restart = async (run: Run, from?: string) =>
    new Run(
      db(),
      await run.call<number>('restart_run', ...(from === undefined ? [] : [from])),
      run.workflow,
    )

  it('takes over what completed, and goes on from there', async () => {
    const old = await begin(db(), tasks, { n: 1 })
    await old.complete('a', 'A')
    await old.complete('x', 'X')
    await old.bury('b')
    const run = await restart(old)
    expect(await run.row()).toMatchObject({
      restarted_from: old.id,
      input: { n: 1 },
      status: 'running',
      ended_tasks: 2,
    })
    expect(await run.statuses()).toEqual({
      a: 'completed',
      b: 'queued',
      c: 'pending',
      x: 'completed',
      end: 'pending',
    })
    expect((await run.task('a')).output).toBe('A')
    expect(await drain(db(), run.workflow, ['b', 'c', 'end'])).toEqual(['b', 'c', 'end'])
    expect(await run.status()).toBe('completed')
    expect(await old.row()).toMatchObject({ status: 'failed' })
  })

  it('from a task: it and all that comes after it is done again', async () => {
    const old = await begin(db(), tasks)
    await drain(db(), old.workflow, Object.keys(tasks))
    const run = await restart(old, 'b')
    expect(await run.statuses()).toEqual({
      a: 'completed',
      b: 'queued',
      c: 'pending',
      x: 'completed',
      end: 'pending',
    })
    expect(await drain(db(), run.workflow, Object.keys(tasks))).toEqual(['b', 'c', 'end'])
    expect((await refused(restart(old, 'bb'), 'JE003')).hint).toBeTruthy()
    await refused(one(db(), 'select fencepost.restart_run(0)'), 'JE002')
  })

  it('of a run that completed, from nothing, completes at once', async () => {
    const old = await begin(db(), tasks)
    await drain(db(), old.workflow, Object.keys(tasks))
    const run = await restart(old)
    expect(await run.row()).toMatchObject({ status: 'completed', finished_at: expect.any(Date) })
    expect((await run.task('end')).output).toBe('end')
  })

  it('takes over skips, and failures that the run went over', async () => {
    const old = await begin(db(), {
      skipped: { when: 'false == true' },
      over: { on_failure: 'continue' },
      a: { after: ['over', 'skipped'], input: { error: '$.errors.over' } },
      b: { after: ['a'] },
    })
    await old.bury('over', 'rain')
    await old.complete('a')
    await old.bury('b')
    const run = await restart(old, 'a')
    expect(await run.statuses()).toEqual({
      skipped: 'skipped',
      over: 'failed',
      a: 'queued',
      b: 'pending',
    })
    expect((await run.claim('a')).payload).toEqual({ error: 'rain' })
    await one(db(), 'select fencepost.replay_task($1)', [(await run.task('over')).id])
    expect((await run.claim('over')).attempt).toBe(1)
  })

  it('does again what comes after a failure that is being replayed', async () => {
    const old = await begin(db(), {
      over: { on_failure: 'continue' },
      a: { after: ['over'] },
      b: { after: ['a'] },
      c: { after: ['b'] },
    })
    await old.bury('over')
    await old.complete('a')
    await old.complete('b')
    await one(db(), 'select fencepost.replay_task($1)', [(await old.task('over')).id])
    await old.call('cancel_run')
    const run = await restart(old)
    expect(await run.statuses()).toEqual({
      over: 'queued',
      a: 'pending',
      b: 'pending',
      c: 'pending',
    })
  })

  it('from a map, an approval, a child run: all of it again', async () => {
    const workflow = await publish(db(), { x: {} })
    const old = await begin(
      db(),
      {
        m: { kind: 'map', over: '$.input.list' },
        ok: { kind: 'approval' },
        call: { kind: 'workflow', workflow },
      },
      { list: [1] },
    )
    await old.complete('m')
    await old.call('cancel_run')
    const run = await restart(old)
    expect(await run.statuses()).toEqual({ m: 'completed', ok: 'waiting', call: 'waiting' })
    const again = await restart(old, 'm')
    expect(await again.items('m')).toHaveLength(1)
    expect((await again.child('call', workflow)).id).not.toBe(
      (await old.child('call', workflow)).id,
    )
  })

  it('is refused while the old run can still do something', async () => {
    const old = await begin(db(), { a: {}, b: {}, c: {} })
    const held = await old.claim('a')
    expect((await refused(restart(old), 'JE004')).hint).toContain('cancel_run')
    await old.bury('b')
    expect(await old.status()).toBe('failed')
    await refused(restart(old), 'JE004')
    await old.call('cancel_run')
    expect((await refused(restart(old), 'JE004')).hint).toContain('Wait')
    await complete(db(), held)
    expect(await (await restart(old)).statuses()).toEqual({
      a: 'completed',
      b: 'queued',
      c: 'queued',
    })
  })

  it('of a child run is refused, and names the run and the task to restart instead', async () => {
    const inner = await publish(db(), { x: {} })
    const middle = await publish(db(), { in: { kind: 'workflow', workflow: inner } })
    const old = await begin(db(), {
      a: {},
      out: { kind: 'workflow', workflow: middle, after: ['a'] },
    })
    await old.complete('a')
    const child = await (await old.child('out', middle)).child('in', inner)
    await child.bury('x')
    const { hint } = await refused(restart(child), 'JE004')
    const call = /fencepost\.restart_run\(.*\)/.exec(String(hint))?.[0]
    const run = new Run(db(), await one<number>(db(), `select ${call}`), old.workflow)
    expect(await run.statuses()).toEqual({ a: 'completed', out: 'waiting' })
  })
})
