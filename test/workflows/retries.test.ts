import { afterEach, describe, expect, it } from 'vitest'
import { moveClock, restoreClock } from '../support/clock.ts'
import { freshType } from '../support/engine.ts'
import { begin, expectSound, publish, Run, settleDue, start, typeOf } from '../support/runs.ts'
import { ownDatabase } from '../support/server.ts'
import { column, one, refused } from '../support/sql.ts'
import { saga, Undoing } from './undoing.ts'

// What failed without a dead letter is tried again too, once its cause is mended.

const database = ownDatabase()
const db = () => database.db
afterEach(async () => {
  await restoreClock(db())
  await expectSound(db())
})

const limit = (type: string, bytes: number) =>
  one(db(), 'select fencepost.configure_type($1, max_payload_bytes => $2)', [type, bytes])
const replay = (id: number) => one(db(), 'select fencepost.replay_task($1)', [id])
const releases = (run: Run, task: string) =>
  column<string | null>(db(), 'select release from fencepost.explain_task($1, $2)', [run.id, task])

/** Publishes the next version of the workflow of a run, with a key of a task changed, and moves the run there. */
async function mend(run: Run, task: string, key: string, value: string): Promise<void> {
  const version = await one(
    db(),
    `select fencepost.publish_workflow($1, jsonb_set(definition, array['tasks', $2, $3], to_jsonb($4::text)))
     from fencepost.workflow_versions where workflow = $1 and version = 1`,
    [run.workflow, task, key, value],
  )
  await one(db(), 'select count(*) from fencepost.migrate_run($1, $2)', [run.id, version])
}

/** Reasons to fail without a dead letter: how the task fails, how that is mended, and how it stands after a retry. */
const causes: [
  string,
  Record<string, unknown>,
  (run: Run) => Promise<unknown>,
  (run: Run) => Promise<unknown>,
  string,
][] = [
  [
    'a payload that is too large',
    {},
    async () => undefined,
    (run) => limit(typeOf(run.workflow, 'a'), 100_000),
    'queued',
  ],
  [
    'a workflow that does not exist',
    { kind: 'workflow' },
    async () => undefined,
    (run) => publish(db(), { x: {} }, {}, `${run.workflow}.child`),
    'waiting',
  ],
  [
    'a map over what is no array',
    { kind: 'map', over: '$.input' },
    async () => undefined,
    (run) => mend(run, 'a', 'over', '$.input.list'),
    'waiting',
  ],
  [
    'a timer without a time',
    { kind: 'timer', until: '$.input.nothing' },
    async () => undefined,
    (run) => mend(run, 'a', 'until', '$.input.time'),
    'waiting',
  ],
  [
    'a rejected approval',
    { kind: 'approval' },
    async (run) => one(db(), 'select fencepost.reject($1)', [await run.approval('a')]),
    async () => undefined,
    'waiting',
  ],
  [
    'an expired approval',
    { kind: 'approval', expires_after: '1 hour' },
    async () => {
      await moveClock(db(), '2 hours')
      await settleDue(db())
    },
    async () => undefined,
    'waiting',
  ],
  [
    'an expired signal',
    { kind: 'signal', signal: 's', expires_after: '1 hour' },
    async () => {
      await moveClock(db(), '2 hours')
      await settleDue(db())
    },
    async () => undefined,
    'waiting',
  ],
]

describe.each(['retry_run', 'replay_task', 'what explain_task says'])(
  '%s begins anew after',
  (way) => {
    const retry = async (run: Run) => {
      if (way === 'retry_run') expect(await run.call('retry_run')).toBe(1)
      else if (way === 'replay_task') await replay((await run.task('a')).id)
      else await one(db(), String((await releases(run, 'a'))[0]))
    }

    it.each(causes)('%s', async (cause, spec, fail, repair, status) => {
      const name = freshType('flow')
      const child = spec.kind === 'workflow' ? { workflow: `${name}.child` } : {}
      const tasks = { a: { after: ['first'], ...spec, ...child }, first: {}, end: { after: ['a'] } }
      const workflow = await publish(db(), tasks, {}, name)
      if (cause.includes('too large')) await limit(typeOf(workflow, 'a'), 10)
      const run = await start(db(), workflow, { list: [1], time: '2999-01-01T00:00:00Z' })
      await run.complete('first')
      await fail(run)
      expect(await run.statuses()).toEqual({ first: 'completed', a: 'failed', end: 'pending' })
      expect(await run.status()).toBe('failed')
      await repair(run)
      await retry(run)
      expect(await run.statuses()).toEqual({ first: 'completed', a: status, end: 'pending' })
      expect(await run.row()).toMatchObject({ failed_tasks: 0, finished_at: null })
      expect((await run.task('a')).error).toBeNull()
    })

    it.each(['pending', 'queued'])(
      'a gate that was rejected before a task that was %s: it is asked for again',
      async (was) => {
        const run = await begin(db(), { first: {}, a: { after: ['first'] } })
        if (was === 'queued') await run.complete('first')
        await one(db(), `select fencepost.request_approval($1, 'look', '1 hour')`, [
          (await run.task('a')).id,
        ])
        await one(db(), 'select fencepost.reject($1)', [await run.approval('a')])
        if (was === 'pending') await run.complete('first')
        expect(await run.statuses()).toEqual({ first: 'completed', a: 'failed' })
        await retry(run)
        expect(await run.statuses()).toEqual({ first: 'completed', a: 'pending' })
        await one(db(), 'select fencepost.approve($1)', [await run.approval('a')])
        await run.complete('a')
        expect(await run.status()).toBe('completed')
      },
    )
  },
)

describe('a retry', () => {
  it('does items whose payload was refused, within the room of their map, and those that are dead', async () => {
    const workflow = await publish(db(), {
      m: { kind: 'map', over: '$.input.list', max_parallel: 1 },
      end: { after: ['m'] },
    })
    await limit(typeOf(workflow, 'm'), 60)
    const long = 'x'.repeat(100)
    const run = await start(db(), workflow, { list: [1, long, 3, long] })
    await run.bury('m')
    await run.complete('m', 3)
    expect(await run.statuses()).toEqual({ m: 'failed', end: 'pending' })
    await limit(typeOf(workflow, 'm'), 1000)
    expect(await run.call('retry_run')).toBe(3)
    await expectSound(db())
    for (const _ of [1, 2, 3]) {
      const [job, more] = await run.claimAll('m')
      expect(more).toBeUndefined()
      await one(db(), 'select fencepost.complete($1, $2)', [job?.job_id, job?.token])
    }
    expect(await run.statuses()).toEqual({ m: 'completed', end: 'queued' })
  })

  it('fails again where the cause is still there, and is tried as often as somebody likes', async () => {
    const run = await begin(db(), { m: { kind: 'map', over: '$.input.nothing' } })
    for (const _ of [1, 2]) {
      expect(await run.call('retry_run')).toBe(1)
      expect(await run.row()).toMatchObject({ status: 'failed', finished_at: expect.any(Date) })
    }
  })

  it('does dead letters and the rest, also in child runs, and leaves nothing behind', async () => {
    const inner = await publish(db(), { x: {}, ok: { kind: 'approval' } })
    const workflow = await publish(db(), {
      a: {},
      big: {},
      call: { kind: 'workflow', workflow: inner },
    })
    await limit(typeOf(workflow, 'big'), 5)
    const run = await start(db(), workflow)
    const child = await run.child('call', inner)
    await run.bury('a')
    await child.bury('x')
    await one(db(), 'select fencepost.reject($1)', [await child.approval('ok')])
    expect(await run.statuses()).toEqual({ a: 'failed', big: 'failed', call: 'failed' })
    await limit(typeOf(workflow, 'big'), 1000)
    expect(await run.call('retry_run')).toBe(4)
    await one(db(), 'select fencepost.approve($1)', [await child.approval('ok')])
    await child.complete('x')
    await run.complete('a')
    await run.complete('big')
    expect([await run.status(), await child.status()]).toEqual(['completed', 'completed'])
  })

  it('waits in a paused run until that goes on', async () => {
    const run = await begin(db(), { ok: { kind: 'approval' } })
    await one(db(), 'select fencepost.reject($1)', [await run.approval('ok')])
    await run.call('pause_run')
    await run.call('retry_run')
    expect(await run.statuses()).toEqual({ ok: 'pending' })
    await run.call('resume_run')
    expect(await run.statuses()).toEqual({ ok: 'waiting' })
  })

  it('of a run leaves a decision alone that the run went on without; of the task asks again', async () => {
    const run = await begin(db(), {
      ok: { kind: 'approval', on_failure: 'continue' },
      b: { after: ['ok'] },
    })
    await one(db(), 'select fencepost.reject($1)', [await run.approval('ok')])
    await refused(run.call('retry_run'), 'JE004')
    await replay((await run.task('ok')).id)
    await one(db(), 'select fencepost.approve($1)', [await run.approval('ok')])
    await run.complete('b')
    expect(await run.statuses()).toEqual({ ok: 'completed', b: 'completed' })
    expect(await run.status()).toBe('completed')
  })
})

describe('what cannot be tried again', () => {
  it.each(['discarded', 'cancelled', 'undone'])(
    'since it was %s: explain_task offers a restart, which works',
    async (why) => {
      const undoing = new Undoing(db())
      const run = await begin(
        db(),
        { a: undoing.of(), b: { after: ['a'] } },
        {},
        why === 'undone' ? saga : {},
      )
      await run.complete('a')
      await run.bury('b')
      if (why === 'discarded')
        await one(db(), 'select fencepost.discard($1)', [(await run.task('b')).job_id])
      if (why === 'cancelled') await run.call('cancel_run')
      if (why === 'undone') {
        await refused(replay((await run.task('b')).id), 'JE004')
        expect(await releases(run, 'b')).toEqual([null])
        await undoing.all()
      }
      await refused(run.call('retry_run'), 'JE004')
      await refused(replay((await run.task('b')).id), 'JE004')
      const [release] = await releases(run, 'b')
      const again = new Run(db(), await one<number>(db(), String(release)), run.workflow)
      expect(again.id).not.toBe(run.id)
      expect(await again.statuses()).toEqual(
        why === 'undone' ? { a: 'queued', b: 'pending' } : { a: 'completed', b: 'queued' },
      )
    },
  )
})
