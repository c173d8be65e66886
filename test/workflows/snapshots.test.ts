import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { moveClock, restoreClock } from '../support/clock.ts'
import { type Claimed, complete } from '../support/engine.ts'
import { begin, expectSound, publish, type Run, settleDue } from '../support/runs.ts'
import { ownDatabase } from '../support/server.ts'
import { Session } from '../support/sessions.ts'
import { one } from '../support/sql.ts'
import { saga, Undoing } from './undoing.ts'

// Under REPEATABLE READ and SERIALIZABLE a transaction decides by a snapshot that may be older than the lock it gets.
// Whatever changes anything of a family of runs leaves a new version of the root's row, so whoever locks that later by an
// older snapshot is told 40001, and does it again.

const database = ownDatabase()
const db = () => database.db
let late: Session
beforeAll(async () => {
  late = await Session.open(database.url)
})
afterAll(() => late[Symbol.asyncDispose]())
afterEach(async () => {
  await late.rollback()
  await restoreClock(db())
  await expectSound(db())
})

const COMPLETE = 'select fencepost.complete($1, $2, $3)'

/** The transaction begins, and has its snapshot from here on. */
async function look(isolation = 'repeatable read'): Promise<void> {
  await late.begin(isolation)
  await late.query('select from fencepost_private.run limit 1')
}

/** Tasks of which each change below finds one that suits it. */
const tasks = {
  queued: {},
  claimed: {},
  failed: {},
  slept: {},
  later: { after: ['queued'] },
  gated: { after: ['queued'] },
  ok: { kind: 'approval', expires_after: '1 hour' },
  soon: { kind: 'timer', delay: '1 hour' },
  awaited: { kind: 'signal', signal: 'awaited' },
  s: { kind: 'signal', signal: 'stored', after: ['queued'] },
}

/** A run with all of them, and a job of its that is held. */
interface Scene {
  readonly run: Run
  readonly claimed: Claimed
}

async function prepare(run: Run): Promise<Scene> {
  await run.bury('failed')
  const slept = await run.claim('slept')
  await one(db(), 'select fencepost.suspend($1, $2)', [slept.job_id, slept.token])
  await one(db(), 'select fencepost.request_approval($1)', [(await run.task('gated')).id])
  return { run, claimed: await run.claim('claimed') }
}

const job = async (run: Run, task: string) => (await run.task(task)).job_id
const call = (name: string, ...params: unknown[]) =>
  one(
    db(),
    `select fencepost.${name}(${params.map((_, index) => `$${index + 1}`).join(', ')})`,
    params,
  )

/** Changes of a run, by the function that makes them. */
const changes: [string, (scene: Scene) => Promise<unknown>][] = [
  ['complete', ({ claimed }) => complete(db(), claimed)],
  ['fail, to be tried again', ({ claimed }) => call('fail', claimed.job_id, claimed.token, 'x')],
  [
    'fail, for good',
    ({ claimed }) =>
      one(db(), `select fencepost.fail($1, $2, 'x', permanent => true)`, [
        claimed.job_id,
        claimed.token,
      ]),
  ],
  ['release', ({ claimed }) => call('release', claimed.job_id, claimed.token)],
  [
    'reclaim',
    async () => {
      await db().query(
        `update fencepost_private.worker set status = 'lost', ended_at = clock_timestamp() where status <> 'lost'`,
      )
      await one(db(), 'select fencepost_private.reclaim()')
    },
  ],
  ['resume', async ({ run }) => call('resume', await job(run, 'slept'))],
  ['cancel', async ({ run }) => call('cancel', await job(run, 'queued'))],
  ['replay', async ({ run }) => call('replay', await job(run, 'failed'))],
  ['replay_task', async ({ run }) => call('replay_task', (await run.task('failed')).id)],
  ['retry_run', ({ run }) => call('retry_run', run.id)],
  ['discard', async ({ run }) => call('discard', await job(run, 'failed'))],
  ['signal_run, stored', ({ run }) => call('signal_run', run.id, 'stored')],
  ['signal_run, taken', ({ run }) => call('signal_run', run.id, 'awaited')],
  ['approve', async ({ run }) => call('approve', await run.approval('ok'))],
  ['reject', async ({ run }) => call('reject', await run.approval('ok'))],
  ['approve, of a gate', async ({ run }) => call('approve', await run.approval('gated'))],
  ['reject, of a gate', async ({ run }) => call('reject', await run.approval('gated'))],
  [
    'request_approval, pending',
    async ({ run }) => call('request_approval', (await run.task('later')).id),
  ],
  [
    'request_approval, queued',
    async ({ run }) => call('request_approval', (await run.task('queued')).id),
  ],
  ['pause_run', ({ run }) => call('pause_run', run.id)],
  ['cancel_run', ({ run }) => call('cancel_run', run.id)],
  [
    'migrate_run',
    async ({ run }) => {
      const { workflow } = run
      await one(
        db(),
        `select fencepost.publish_workflow($1, jsonb_set(definition, '{tasks,later,after}', '["failed"]')) from fencepost.workflow_versions where workflow = $1`,
        [workflow],
      )
      await call('migrate_run', run.id, 2)
    },
  ],
  [
    'settle_due_runs',
    async () => {
      await moveClock(db(), '2 hours')
      expect(await settleDue(db())).toBeGreaterThan(0)
    },
  ],
]

describe.each(['the run itself', 'a run inside of it'])('a change of %s', (place) => {
  it.each(changes)('%s', async (_, change) => {
    const inner = await publish(db(), tasks)
    const outer = await begin(db(), {
      call: { kind: 'workflow', workflow: inner },
      last: {},
      ...tasks,
    })
    const target = place === 'the run itself' ? outer : await outer.child('call', inner)
    const scene = await prepare(target)
    const last = await outer.claim('last')
    await look()
    await change(scene)
    await expect(late.query(COMPLETE, [last.job_id, last.token, null])).rejects.toMatchObject({
      code: '40001',
    })
    await call('cancel_run', outer.id)
  })

  it('resume_run', async () => {
    const inner = await publish(db(), tasks)
    const outer = await begin(db(), { call: { kind: 'workflow', workflow: inner }, last: {} })
    const target = place === 'the run itself' ? outer : await outer.child('call', inner)
    const last = await outer.claim('last')
    await call('pause_run', target.id)
    await look()
    await call('resume_run', target.id)
    await expect(late.query(COMPLETE, [last.job_id, last.token, null])).rejects.toMatchObject({
      code: '40001',
    })
    await call('cancel_run', outer.id)
  })
})

describe('what would be lost', () => {
  it.each(['repeatable read', 'serializable'])('a signal, under %s', async (isolation) => {
    const run = await begin(db(), { a: {}, s: { kind: 'signal', signal: 'go', after: ['a'] } })
    const a = await run.claim('a')
    await look(isolation)
    await call('signal_run', run.id, 'go', '1')
    const params = [a.job_id, a.token, null]
    await expect(late.query(COMPLETE, params)).rejects.toMatchObject({ code: '40001' })
    await late.rollback()
    await late.begin(isolation)
    await late.query(COMPLETE, params)
    await late.commit()
    expect((await run.task('s')).output).toBe(1)
    expect(await run.status()).toBe('completed')
  })

  it('the undoing of a run whose last two child runs end what they undo', async () => {
    const undoing = new Undoing(db())
    const inner = await publish(db(), { x: undoing.of(), y: { after: ['x'] } }, saga)
    const child = { kind: 'workflow', workflow: inner }
    const run = await begin(
      db(),
      { a: undoing.of(), one: child, two: child, bad: { after: ['a'] } },
      {},
      saga,
    )
    await run.complete('a')
    for (const job of await (await run.child('one', inner)).claimAll('x')) await complete(db(), job)
    await run.bury('bad')
    const [first, second] = await undoing.both()
    await look()
    await complete(db(), first)
    const params = [second.job_id, second.token, null]
    await expect(late.query(COMPLETE, params)).rejects.toMatchObject({ code: '40001' })
    await complete(db(), second)
    expect(await undoing.all()).toEqual(['a'])
    expect(await run.status()).toBe('compensated')
  })

  it('the pause of a job that is tried again', async () => {
    const run = await begin(db(), { a: {} })
    const a = await run.claim('a')
    await look()
    await call('fail', a.job_id, a.token, 'x')
    await expect(late.query('select fencepost.pause_run($1)', [run.id])).rejects.toMatchObject({
      code: '40001',
    })
  })
})
