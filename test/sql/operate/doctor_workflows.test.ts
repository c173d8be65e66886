import { afterEach, describe, expect, it } from 'vitest'
import { moveClock, restoreClock } from '../../support/clock.ts'
import { enqueue, freshType } from '../../support/engine.ts'
import { begin, publish, start } from '../../support/runs.ts'
import { ownDatabase } from '../../support/server.ts'
import { one } from '../../support/sql.ts'

const database = ownDatabase()
const db = () => database.db
afterEach(() => restoreClock(db()))

interface Finding {
  readonly severity: string
  readonly finding: string
  readonly remedy: string
  readonly topic: string
}
const found = async (topic: string, word: string) => {
  const rows = await db().query<Finding>('select * from fencepost.doctor() where topic = $1', [
    topic,
  ])
  return rows.find(({ finding }) => finding.includes(word))
}

describe('doctor, of workflows', () => {
  it('names failed runs, also those without a dead letter', async () => {
    const workflow = await publish(db(), { a: { when: '$.input.n > 1' } })
    await start(db(), workflow, { n: 'text' })
    const newest = await start(db(), workflow, { n: 'text' })
    expect(await found('failed_runs', workflow)).toMatchObject({
      severity: 'warning',
      finding: `workflow ${workflow} has 2 failed runs, the newest is run ${newest.id}`,
      remedy: expect.stringContaining(`where workflow = '${workflow}' and status = 'failed'`),
    })
  })

  it('a failure inside is told once, where a person can decide', async () => {
    const child = await publish(db(), { a: {} })
    const run = await begin(db(), { call: { kind: 'workflow', workflow: child } })
    await (await run.child('call', child)).bury('a')
    expect(await found('failed_runs', run.workflow)).toBeDefined()
    expect(await found('failed_runs', child)).toBeUndefined()
  })

  it('names what could not be undone', async () => {
    const undo = freshType('undo')
    const tasks = { a: { compensate: undo }, b: { after: ['a'] } }
    const run = await begin(db(), tasks, {}, { on_failure: 'compensate' })
    await run.complete('a')
    await run.bury('b')
    await db().query(
      `select fencepost.fail(job_id, token, 'no', permanent => true) from fencepost.claim('w', array[$1])`,
      [undo],
    )
    expect((await found('failed_runs', run.workflow))?.finding).toContain(
      '1 failed runs (1 could not undo what they had done)',
    )
  })

  it('names undoings that stand still', async () => {
    const undo = freshType('undo')
    const tasks = { a: { compensate: undo }, b: { after: ['a'] } }
    const run = await begin(db(), tasks, {}, { on_failure: 'compensate' })
    await run.complete('a')
    await run.bury('b')
    await moveClock(db(), '2 hours')
    expect(await found('undoing_stuck', run.workflow)).toBeUndefined()
    await db().query('update fencepost_private.run set queued = 0 where run_id = $1', [run.id])
    expect(await found('undoing_stuck', run.workflow)).toMatchObject({ severity: 'warning' })
    await db().query('update fencepost_private.run set queued = 1 where run_id = $1', [run.id])
  })

  it('names approvals that nobody decides, and expiries that nobody carries out', async () => {
    const run = await begin(db(), {
      ok: { kind: 'approval' },
      soon: { kind: 'approval', expires_after: '3 days' },
    })
    expect(await found('approvals_wait', run.workflow)).toBeUndefined()
    await moveClock(db(), '25 hours')
    expect((await found('approvals_wait', run.workflow))?.finding).toContain(
      `2 approvals of workflow ${run.workflow} have waited`,
    )
    expect(await found('approvals_overdue', '')).toBeUndefined()
    await moveClock(db(), '3 days')
    expect((await found('approvals_overdue', ''))?.finding).toContain('1 approvals have expired')
    await one(db(), 'select fencepost_private.settle_due_runs(null)').catch(() =>
      one(db(), 'select fencepost_private.settle_due_runs()'),
    )
    expect(await found('approvals_overdue', '')).toBeUndefined()
  })

  it('names types that a run will need and nobody serves', async () => {
    const run = await begin(db(), { a: {}, b: { after: ['a'] }, c: { after: ['b'] } })
    const types = ['a', 'b', 'c'].map((task) => `${run.workflow}.${task}`)
    await one(db(), 'select fencepost.register_worker($1, types => $2)', ['w', [types[2]]])
    expect(await found('no_worker', `${types[0]} wait`)).toBeDefined()
    expect(await found('no_worker_yet', `type ${types[0]},`)).toBeUndefined()
    expect(await found('no_worker_yet', `type ${types[1]},`)).toMatchObject({ severity: 'info' })
    expect(await found('no_worker_yet', `type ${types[2]},`)).toBeUndefined()
    await enqueue(db(), `${types[1]}`)
    expect(await found('no_worker_yet', `type ${types[1]},`)).toBeUndefined()
  })
})
