import { describe, expect, it } from 'vitest'
import { json } from '../../../src/database/database.ts'
import {
  bury,
  claim,
  claimOne,
  complete,
  enqueue,
  enqueueBatch,
  freshType,
  maintain,
  started,
  status,
} from '../../support/engine.ts'
import { ownDatabase } from '../../support/server.ts'
import { one, refused } from '../../support/sql.ts'

const database = ownDatabase()
const db = () => database.db

interface Row {
  readonly id: number
  readonly status: string | null
  readonly cut: boolean
}
const list = (filter: unknown, after: number | null = null, max = 50) =>
  db().query<Row>('select * from fencepost.list_jobs($1, $2, $3)', [json(filter), after, max])
const ids = async (filter: unknown, after: number | null = null, max = 50) =>
  (await list(filter, after, max)).map(({ id }) => id)

describe('list_jobs', () => {
  it('lists newest first, page by page', async () => {
    const type = freshType()
    const all = (await enqueueBatch(db(), type, 7)).reverse()
    expect(await ids({ type }, null, 3)).toEqual(all.slice(0, 3))
    expect(await ids({ type }, all[2], 3)).toEqual(all.slice(3, 6))
    expect(await ids({ type }, all[5], 3)).toEqual(all.slice(6))
    expect(await ids({ type }, all[6], 3)).toEqual([])
  })

  it('finds jobs by status, wherever they stand', async () => {
    const type = freshType()
    const ready = await enqueue(db(), type, { priority: 0 })
    const delayed = await enqueue(db(), type, { delay: '1 hour' })
    const running = await started(db(), type)
    const done = await started(db(), type)
    await complete(db(), done, 5)
    const waits = await started(db(), type)
    await db().query('select fencepost.suspend($1, $2)', [waits.job_id, waits.token])
    const [dead, discarded] = [await started(db(), type), await started(db(), type)]
    await bury(db(), dead)
    await bury(db(), discarded)
    await db().query('select fencepost.discard($1)', [discarded.job_id])
    const cancelled = await enqueue(db(), type)
    await db().query('select fencepost.cancel($1)', [cancelled])
    const found = {
      pending: [delayed, ready],
      running: [running.job_id],
      completed: [done.job_id],
      waiting: [waits.job_id],
      dead_letter: [dead.job_id],
      discarded: [discarded.job_id],
      cancelled: [cancelled],
    }
    for (const [status, wanted] of Object.entries(found))
      expect(await ids({ type, status })).toEqual(wanted)
    expect(await ids({ type })).toHaveLength(8)
    expect((await list({ type, status: 'completed' }))[0]).toMatchObject({
      result: 5,
      status: 'completed',
      cut: false,
    })
  })

  it('narrows by tenant, priority, time, key, worker and error', async () => {
    const type = freshType()
    const one = await enqueue(db(), type, {
      tenant: 'acme',
      priority: 8,
      idempotency_key: 'list:1',
    })
    const two = await enqueue(db(), type)
    expect(await ids({ type, tenant: 'acme' })).toEqual([one])
    expect(await ids({ type, priority: 5 })).toEqual([two])
    expect(await ids({ type, status: 'pending', priority: 8 })).toEqual([one])
    expect(await ids({ idempotency_key: 'list:1', tenant: 'acme' })).toEqual([one])
    expect(await ids({ idempotency_key: 'list:1' })).toEqual([]) // another tenant's
    expect(await ids({ type, created_before: '2000-01-01' })).toEqual([])
    expect(await ids({ type, created_after: '2000-01-01T00:00:00Z' })).toEqual([two, one])
    const held = await claimOne(db(), type, 'lister')
    expect(await ids({ worker: 'lister' })).toEqual([held.job_id])
    await bury(db(), held, 'Connection REFUSED by peer')
    expect(await ids({ error: 'connection refused' })).toEqual([held.job_id])
    expect(await ids({ type, error: '100%' })).toEqual([])
  })

  it('keeps to the priority that a job has now', async () => {
    const type = freshType()
    const id = await enqueue(db(), type, { priority: 1 })
    await db().query('select fencepost.reprioritize($1, 9)', [id])
    expect(await ids({ type, priority: 9 })).toEqual([id])
    expect(await ids({ type, priority: 1 })).toEqual([])
  })

  it('looks at 10,000 jobs and says how far it came', async () => {
    const [rare, common] = [freshType('rare'), freshType('common')]
    const wanted = await enqueue(db(), rare)
    await enqueueBatch(db(), common, 12_000)
    const [cut, ...others] = await list({ type: rare })
    expect(others).toEqual([])
    expect(cut).toMatchObject({ cut: true, status: null })
    expect(await ids({ type: rare }, cut?.id)).toEqual([wanted])
    expect((await list({ type: rare, status: 'pending' })).map((row) => row.cut)).toEqual([true])
    expect(await ids({ type: common }, null, 2)).toHaveLength(2)
  })

  it('refuses what it does not know', async () => {
    const refusal = await refused(list({ staus: 'pending' }), 'JE003')
    expect(refusal.hint).toContain(`did you mean 'status'?`)
    const far = await refused(ids({ foo: 1 }), 'JE003')
    expect(far.hint).not.toContain('did you mean')
    for (const filter of [
      [],
      'x',
      { status: 'done' },
      { priority: 'high' },
      { priority: [1] },
      { created_after: 'yesterdayish' },
      { failed_after: '2030-01-01' },
      { error: 'x', status: 'running' },
      { worker: 'w', status: 'completed' },
    ]) {
      await refused(list(filter), 'JE003')
    }
    for (const max of [0, 1001]) await refused(list({}, null, max), 'JE003')
  })
})

describe('replay_matching and discard_matching', () => {
  const dead = async (type: string, error: string, tenant = '') => {
    await enqueue(db(), type, { tenant })
    const job = await claimOne(db(), type)
    await bury(db(), job, error)
    return job.job_id
  }
  const replay = (filter: unknown, dryRun: boolean | null = null, max = 10_000) =>
    one<number>(db(), 'select fencepost.replay_matching($1, $2, $3)', [json(filter), dryRun, max])

  it('count first, then act on what matches and nothing else', async () => {
    const type = freshType()
    const smtp = [await dead(type, 'SMTP timeout', 'acme'), await dead(type, 'smtp refused')]
    const bad = await dead(type, 'bad address 42')
    expect(await replay({ type })).toBe(3)
    expect(await replay({ type, error: 'smtp' })).toBe(2)
    expect(await replay({ type, error_matches: 'address \\d+$' })).toBe(1)
    expect(await replay({ type, tenant: 'acme' })).toBe(1)
    expect(await replay({ type, attempts: 2 })).toBe(0)
    expect(await replay({ type, failed_before: '2000-01-01' })).toBe(0)
    expect(await replay({ type, failed_after: '2000-01-01', priority: 5 })).toBe(3)
    expect(await one(db(), 'select fencepost.replay_matching($1)', [json({ type })])).toBe(3) // counting is the default
    expect(await status(db(), bad)).toBe('dead_letter')

    expect(await replay({ type, error: 'smtp' }, false, 1)).toBe(1)
    expect(await status(db(), smtp[0] ?? 0)).toBe('pending')
    expect(await replay({ type, error: 'smtp' }, false)).toBe(1)
    expect((await claim(db(), type, 10)).map((job) => job.job_id)).toEqual(smtp)
    expect(await status(db(), bad)).toBe('dead_letter')

    const discard = (dryRun: boolean) =>
      one<number>(db(), `select fencepost.discard_matching($1, $2, 'no use')`, [
        json({ type }),
        dryRun,
      ])
    expect(await discard(true)).toBe(1)
    expect(await discard(false)).toBe(1)
    expect(await status(db(), bad)).toBe('discarded')
    expect(await discard(false)).toBe(0)
    await maintain(db())
  })

  it('refuse a filter that is missing or makes no sense', async () => {
    await refused(replay(null), 'JE003')
    await refused(db().query('select fencepost.discard_matching(null)'), 'JE003')
    for (const filter of [{ status: 'dead_letter' }, { error_matches: '(' }, { attempts: 'x' }])
      await refused(replay(filter), 'JE003')
    for (const max of [0, 100_001]) await refused(replay({}, false, max), 'JE003')
  })
})
