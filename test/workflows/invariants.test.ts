import { beforeAll, describe, expect, it } from 'vitest'
import type { Queryable } from '../../src/database/database.ts'
import { begin, expectSound, publish, type Run } from '../support/runs.ts'
import { ownDatabase } from '../support/server.ts'
import { column, one } from '../support/sql.ts'

// A check that never finds anything proves nothing: each invariant is broken here, in a transaction that is rolled back.

const database = ownDatabase()
const db = () => database.db
let run: Run
let inner: Run
beforeAll(async () => {
  const workflow = await publish(db(), { x: {}, y: { after: ['x'] } })
  run = await begin(
    db(),
    {
      done: {},
      bad: { on_failure: 'continue' },
      ready: {},
      later: { after: ['ready', 'done'] },
      gated: {},
      ok: { kind: 'approval', expires_after: '1 day' },
      t: { kind: 'timer', delay: '1 day' },
      s: { kind: 'signal', signal: 's' },
      m: { kind: 'map', over: '$.input.list', max_parallel: 2 },
      call: { kind: 'workflow', workflow },
    },
    { list: [1, 2, 3, 4, 5] },
  )
  inner = await run.child('call', workflow)
  await run.complete('done')
  await run.bury('bad')
  await run.complete('m')
  await one(db(), 'select fencepost.request_approval($1)', [(await run.task('gated')).id])
})

/** What the check finds after some statements, which are taken back. */
async function found(...statements: string[]): Promise<string[]> {
  let names: string[] = []
  const undo = new Error('taken back')
  await db()
    .transaction(async (tx: Queryable) => {
      for (const statement of statements) {
        await tx.query(
          statement.replaceAll(':run', String(run.id)).replaceAll(':inner', String(inner.id)),
        )
      }
      names = await column<string>(
        tx,
        'select distinct invariant from fencepost_private.check_run_invariants() order by 1',
      )
      throw undo
    })
    .catch((error: unknown) => {
      if (error !== undo) throw error
    })
  return names
}

/** Changes a task of the run. */
const task = (name: string, change: string) =>
  `update fencepost_private.task t set ${change} from fencepost.tasks v
   where v.id = t.task_id and v.run_id = :run and v.name = '${name}' and t.item is null`
const runs = (change: string, id = ':run') =>
  `update fencepost_private.run set ${change} where run_id = ${id}`
const jobOf = (name: string) =>
  `(select job_id from fencepost.tasks where run_id = :run and name = '${name}' and item is null)`

it('finds nothing to begin with', async () => {
  await expectSound(db())
  expect(await found()).toEqual([])
})

describe('finds that', () => {
  it.each([
    ['the numbers of a run are those of its tasks', [runs('queued = queued + 1')]],
    ['the status of a run follows its numbers', [runs(`status = 'failed'`)]],
    [
      'a run has the tasks of its version',
      [
        `delete from fencepost_private.task t using fencepost.tasks v where v.id = t.task_id and v.run_id = :run and v.name = 't'`,
      ],
    ],
    ['a run has ended when nothing of it can move', [runs('finished_at = created_at')]],
    ['an ended run has no live task', [runs('finished_at = created_at')]],
    ['a run inside another belongs to its family', [runs('root_run_id = run_id', ':inner')]],
    ['a run inside another belongs to its family', [runs('depth = 3', ':inner')]],
    ['what belongs to a run has one', ['delete from fencepost_private.run where run_id = :run']],
    [
      'nothing lives in a cancelled run but what undoes itself',
      [runs(`status = 'cancelled', cancelled_at = created_at`)],
    ],
    ['a pending task waits for its parents', [task('later', 'unmet = 2')]],
    ['a pending task waits for its parents', [task('later', 'skipped_parents = 1')]],
    [
      'a task that can start has started',
      [task('ready', 'released = true'), task('later', 'unmet = 0')],
    ],
    ['a task that ended well released its children', [task('done', 'released = false')]],
    ['a task starts after its parents', [task('later', `status = 'queued', job_id = 0`)]],
    [
      'a queued task has a living job',
      [`delete from fencepost_private.ready where id = ${jobOf('ready')}`],
    ],
    ['a living job of a run has a queued task', [task('ready', `status = 'completed'`)]],
    ['a living job of a run has a queued task', [task('bad', `status = 'queued'`)]],
    ['nothing of a paused run can be claimed', [runs('paused_at = created_at')]],
    ['a cancelled run has no job that was not told', [runs('cancelled_at = created_at')]],
    ['a parked job of a run has a reason', [task('gated', 'gate_id = null')]],
    [
      'a task behind a gate is held',
      [
        task(
          'ready',
          `gate_id = (select gate_id from fencepost_private.task where gate_id is not null)`,
        ),
      ],
    ],
    ['a waiting task waits for something', [task('t', 'due_at = null')]],
    [
      'a waiting task waits for something',
      [`update fencepost_private.approval set status = 'approved' where not is_gate`],
    ],
    [
      'a waiting task waits for something',
      [
        `insert into fencepost_private.signal (run_id, name, received_at, sent_by) values (:run, 's', now(), 'x')`,
      ],
    ],
    ['a waiting task waits for something', [runs(`status = 'failed', queued = 0`, ':inner')]],
    ['what can fall due waits', [task('ready', 'due_at = now()')]],
    ['an open approval belongs to a live task', [task('ok', `status = 'completed'`)]],
    [
      'a gate is an open approval',
      [`update fencepost_private.approval set status = 'approved' where is_gate`],
    ],
    ['a map counts its items', [task('m', 'items_open = t.items_open + 1')]],
    [
      'a map keeps to max_parallel',
      [
        `update fencepost_private.task set status = 'queued' where status = 'pending' and kind = 'item'`,
      ],
    ],
    [
      'a map uses its room',
      [
        `update fencepost_private.task set status = 'completed' where status = 'queued' and kind = 'item' and item = 1`,
      ],
    ],
    [
      'what ended leaves no item behind',
      [
        task('m', `status = 'failed'`),
        `update fencepost_private.task set status = 'pending' where kind = 'item' and item = 1`,
      ],
    ],
  ] as [string, string[]][])('%s', async (invariant, statements) => {
    expect(await found(...statements)).toContain(invariant)
  })
})
