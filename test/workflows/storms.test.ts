import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { expectSound, publish, settleDue, start, typeOf } from '../support/runs.ts'
import { ownDatabase } from '../support/server.ts'
import { Session } from '../support/sessions.ts'
import { column, one } from '../support/sql.ts'

// Many sessions at once, without steps: whatever order they come in, nothing is lost, done twice, or stuck.

interface Job {
  readonly job_id: number
  readonly token: number
}

const database = ownDatabase()
const db = () => database.db
let sessions: Session[]
beforeAll(async () => {
  sessions = await Promise.all(Array.from({ length: 8 }, () => Session.open(database.url)))
})
afterAll(async () => {
  for (const session of sessions) await session[Symbol.asyncDispose]()
})
afterEach(() => expectSound(db()))

/** A number from 0 to below `below`, the same for a seed every time. */
function seeded(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

it('50 parents that eight sessions complete at once start their child exactly once, 100 times', async () => {
  const names = Array.from({ length: 50 }, (_, n) => `p${n}`)
  const name = await publish(db(), {
    ...Object.fromEntries(names.map((parent) => [parent, { type: 'fan.parent' }])),
    end: { type: 'fan.end', after: names, input: {} },
  })
  for (let round = 0; round < 100; round++) {
    const run = await start(db(), name)
    const jobs = await db().query<Job>(
      `select job_id, token from fencepost.claim('w', '{fan.parent}', 50)`,
    )
    expect(jobs).toHaveLength(50)
    await Promise.all(
      sessions.map(async (session, index) => {
        for (const job of jobs.filter((_, place) => place % sessions.length === index)) {
          await session.query('select fencepost.complete($1, $2)', [job.job_id, job.token])
        }
      }),
    )
    expect(await run.task('end')).toMatchObject({ status: 'queued', unmet_parents: 0 })
    const children = await db().query<Job>(
      `select job_id, token from fencepost.claim('w', $1, 10)`,
      [['fan.end']],
    )
    expect(children).toHaveLength(1)
    await one(db(), 'select fencepost.complete($1, $2)', [children[0]?.job_id, children[0]?.token])
    expect(await run.status()).toBe('completed')
  }
}, 120_000)

const RUNS = 'select id from fencepost.runs where workflow = any ($1)'
const within = (view: string, condition: string) =>
  `select id from fencepost.${view} where ${condition} and run_id in (${RUNS})`
const CLAIM = `select job_id, token from fencepost.claim('w', $1, 1)`

/**
 * What people, workers and the clock do to runs: how often, to what (`$1` are the workflows; undefined is a job that is
 * claimed, in a transaction of its own), and how.
 */
const DEEDS: readonly (readonly [weight: number, pick: string | undefined, call: string])[] = [
  [41, undefined, `select fencepost.complete($1, $2, '1')`],
  [5, undefined, `select fencepost.fail($1, $2, 'storm', permanent => true)`],
  [5, undefined, 'select fencepost.release($1, $2)'],
  [10, RUNS, 'select fencepost.pause_run($1)'],
  [15, `${RUNS} and status = 'paused'`, 'select fencepost.resume_run($1)'],
  [2, RUNS, 'select fencepost.cancel_run($1)'],
  [6, within('approvals', `status = 'pending'`), 'select fencepost.approve($1)'],
  [2, within('approvals', `status = 'pending'`), 'select fencepost.reject($1)'],
  [2, RUNS, `select fencepost.signal_run($1, 's')`],
  [6, within('tasks', `status = 'failed'`), 'select fencepost.replay_task($1)'],
  [2, within('tasks', `status in ('pending', 'queued')`), 'select fencepost.request_approval($1)'],
  [2, `${RUNS} and status = 'failed'`, 'select fencepost.retry_run($1)'],
  [1, RUNS, 'select fencepost.restart_run($1)'],
  [3, `${RUNS} and version = 1 and workflow = ($1)[1]`, 'select fencepost.migrate_run($1, 2)'],
  [8, 'select 500 as id', 'select fencepost_private.settle_due_runs($1)'],
]
const DECK = DEEDS.flatMap((deed) => Array.from({ length: deed[0] }, () => deed))

/** A workflow with child runs, a map, approvals, a signal, a timer and something to undo, in two versions. */
async function family(): Promise<{ workflows: string[]; types: string[] }> {
  const inner = await publish(db(), {
    x: {},
    y: { after: ['x'] },
    m: { kind: 'map', over: '$.input.list', max_parallel: 2, after: ['x'] },
  })
  const first = {
    a: { compensate: `${inner}.undo` },
    one: { kind: 'workflow', workflow: inner, after: ['a'], input: { list: [1, 2, 3] } },
    two: { kind: 'workflow', workflow: inner, after: ['a'], input: { list: [1] } },
    ok: { kind: 'approval', after: ['a'], on_reject: 'continue', expires_after: '200 ms' },
    soon: { kind: 'timer', after: ['a'], delay: '20 ms' },
    s: {
      kind: 'signal',
      signal: 's',
      after: ['a'],
      on_failure: 'continue',
      expires_after: '300 ms',
    },
    end: { after: ['one', 'two', 'ok', 's', 'soon'] },
  }
  const second = { ...first, more: { after: ['ok'] }, end: { after: [...first.end.after, 'more'] } }
  const outer = await publish(db(), first, { on_failure: 'compensate' })
  await publish(db(), second, { on_failure: 'compensate' }, outer)
  const types = ['a', 'end', 'more'].map((task) => typeOf(outer, task))
  return {
    workflows: [outer, inner],
    types: [...types, ...['x', 'y', 'm', 'undo'].map((task) => typeOf(inner, task))],
  }
}

/** Decides whatever waits and does whatever there is to do. */
async function cleanUp(workflows: readonly string[], types: readonly string[]): Promise<void> {
  const allow = (error: { code: string }) => {
    if (error.code !== 'JE004') throw error
  }
  for (const id of await column<number>(db(), `${RUNS} and finished_at is null`, [workflows])) {
    await one(db(), 'select fencepost.resume_run($1)', [id]).catch(allow)
    await one(db(), `select fencepost.signal_run($1, 's')`, [id]).catch(allow)
  }
  for (const id of await column(db(), within('approvals', `status = 'pending'`), [workflows])) {
    await one(db(), 'select fencepost.approve($1)', [id])
  }
  await settleDue(db())
  for (;;) {
    const [job] = await db().query<Job>(CLAIM, [types])
    if (job === undefined) return
    await one(db(), `select fencepost.complete($1, $2, '1')`, [job.job_id, job.token])
  }
}

const SEEDS = process.env.FENCEPOST_SEED?.split(',').map(Number) ?? [1, 2, Date.now() % 1_000_000]

it.each(SEEDS)(
  'operators and workers on families of runs: no deadlock, and every run comes to its end (seed %i)',
  async (seed) => {
    const random = seeded(seed)
    const { workflows, types } = await family()

    async function act(session: Session): Promise<void> {
      const [, pick, call] = DECK[random(DECK.length)] ?? [0, undefined, 'select']
      if (pick === undefined) {
        const [job] = await session.query<Job>(CLAIM, [types])
        if (job !== undefined) await session.query(call, [job.job_id, job.token])
        return
      }
      const found = await session.query<{ id: number }>(
        pick,
        pick.includes('$1') ? [workflows] : [],
      )
      if (found.length > 0) await session.query(call, [found[random(found.length)]?.id])
    }

    await Promise.all(
      sessions.map(async (session) => {
        for (let n = 0; n < 200; n++) {
          if (n % 40 === 0) {
            await start(db(), workflows[0] as string, {}, { version: 1 + random(2) })
          }
          await act(session).catch((error: { code: string }) => {
            if (error.code !== 'JE004') throw error // what somebody else did first
          })
        }
      }),
    )
    await expectSound(db())
    const open = () => column(db(), `${RUNS} and finished_at is null`, [workflows])
    for (let round = 0; round < 100 && (await open()).length > 0; round++) {
      await cleanUp(workflows, types)
    }
    expect(await open()).toEqual([])
    expect(await one(db(), 'select count(*)::int from fencepost_private.lease')).toBe(0)
  },
  120_000,
)
