import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { defineJob } from '../../src/index.ts'
import { deferred, fired, Stage } from './stage.ts'

let stage: Stage
let sql: postgres.Sql
beforeAll(async () => {
  stage = await Stage.open()
  sql = postgres(stage.database.url, { max: 2, onnotice: () => {} })
  await sql`create table ledger (job bigint, note text)`
})
afterAll(async () => {
  await sql.end({ timeout: 1 })
  await stage[Symbol.asyncDispose]()
})

describe('complete(tx)', () => {
  /** Writes to the ledger and completes in one transaction; `after` happens before the commit. */
  function transactional(type: string, after: (jobId: number, attempt: number) => unknown) {
    return defineJob({
      type,
      retry: { baseDelay: 0 },
      run: async (_, ctx) => {
        await sql.begin(async (tx) => {
          await tx`insert into ledger values (${ctx.jobId}, ${`attempt ${ctx.attempt}`})`
          await ctx.complete(tx, { noted: ctx.attempt })
          await after(ctx.jobId, ctx.attempt)
        })
      },
    })
  }

  /** How many sessions wait for a lock. */
  const waiting = async () => {
    const [row] = await stage.database.db.query<{ count: number }>(
      `select count(*) from pg_stat_activity
       where datname = current_database() and wait_event_type = 'Lock'`,
    )
    return row?.count
  }

  const noted = async (id: number) =>
    (await sql<{ note: string }[]>`select note from ledger where job = ${id}`).map(
      ({ note }) => note,
    )

  it('commits the write, the result and the event together', async () => {
    const { engine, log } = stage
    const inside = deferred<string | undefined>()
    const job = transactional('tx.together', async (id) => {
      inside.resolve((await engine.job(id))?.status)
    })
    await using worker = await stage.work([job])
    const id = await engine.enqueue(job, {})
    expect(await inside.promise).toBe('running')
    expect(await log.ended(id)).toMatchObject({ outcome: 'completed' })
    expect(await engine.job(id)).toMatchObject({ status: 'completed', result: { noted: 1 } })
    expect(await noted(id)).toEqual(['attempt 1'])
    expect(worker.counters).toMatchObject({ completed: 1, lost: 0, failed: 0 })
  })

  it('leaves nothing behind when the transaction rolls back, and the job is tried again', async () => {
    const { engine, log } = stage
    const job = transactional('tx.rollback', (_, attempt) => {
      if (attempt === 1) throw new Error('constraint')
    })
    await using _ = await stage.work([job])
    const id = await engine.enqueue(job, {})
    await log.ended(id, 'completed')
    expect(await noted(id)).toEqual(['attempt 2'])
    const attempts = await engine.attempts(id)
    expect(attempts.map(({ outcome, error }) => [outcome, error])).toEqual([
      ['completed', null],
      ['failed', 'constraint'],
    ])
  })

  it('counts although the handler throws after the commit', async () => {
    const { engine, log } = stage
    const job = defineJob({
      type: 'tx.late',
      run: async (_, ctx) => {
        await sql.begin(async (tx) => ctx.complete(tx, 'done'))
        throw new Error('too late')
      },
    })
    await using _ = await stage.work([job])
    const id = await engine.enqueue(job, {})
    expect(await log.ended(id)).toMatchObject({ outcome: 'completed' })
    expect(await engine.job(id)).toMatchObject({ status: 'completed', result: 'done', attempts: 1 })
  })

  it('that rolled back leaves the end to a handler that returns all the same', async () => {
    const { engine, log } = stage
    const job = defineJob({
      type: 'tx.swallowed',
      run: async (_, ctx) => {
        const transaction = sql.begin(async (tx) => {
          await ctx.complete(tx, 'from the transaction')
          throw new Error('rolled back')
        })
        await transaction.catch(() => {})
        return 'from the handler'
      },
    })
    await using worker = await stage.work([job])
    const id = await engine.enqueue(job, {})
    expect(await log.ended(id)).toMatchObject({ outcome: 'completed' })
    expect(await engine.job(id)).toMatchObject({
      status: 'completed',
      attempts: 1,
      result: 'from the handler',
    })
    expect(log.lines.filter(({ job, level }) => job === id && level === 'warn')).toEqual([
      expect.objectContaining({ msg: expect.stringContaining('did not commit') }),
    ])
    expect(worker.counters).toMatchObject({ completed: 1, lost: 0 })
  })

  it.each([
    ['commits', 'from the transaction'],
    ['rolls back', 'from the handler'],
  ])('that is open when the handler returns, and %s, ends the job once', async (end, result) => {
    const { engine, log } = stage
    const go = deferred()
    let transaction: Promise<unknown> = Promise.resolve()
    const job = defineJob({
      type: `tx.open ${end}`.replace(/\W/g, '_'),
      run: async (_, ctx) => {
        const completed = deferred()
        transaction = sql
          .begin(async (tx) => {
            await ctx.complete(tx, 'from the transaction')
            completed.resolve()
            await go.promise
            if (end === 'rolls back') throw new Error('rolled back')
          })
          .catch(() => {})
        await completed.promise
        return 'from the handler'
      },
    })
    const other = defineJob({ type: `${job.type}_other`, run: () => 'meanwhile' })
    await using worker = await stage.work([job, other])
    const id = await engine.enqueue(job, {})
    await expect.poll(waiting).toBe(1)
    // Nobody else waits for it.
    const meanwhile = await engine.enqueue(other, {})
    expect(await log.ended(meanwhile)).toMatchObject({ outcome: 'completed' })
    expect(log.attempts.filter((line) => line.job === id)).toEqual([])
    go.resolve()
    await transaction
    expect(await log.ended(id)).toMatchObject({ outcome: 'completed' })
    expect(await engine.job(id)).toMatchObject({ status: 'completed', attempts: 1, result })
    expect(worker.counters).toMatchObject({ completed: 2, lost: 0 })
  })

  it('that is open in as many handlers as there are rounds at a time holds nobody else up', async () => {
    const { engine, log } = stage
    const go = deferred()
    const open: Promise<unknown>[] = []
    const job = defineJob({
      type: 'tx.open_twice',
      run: async (_, ctx) => {
        const completed = deferred()
        open.push(
          sql.begin(async (tx) => {
            await ctx.complete(tx)
            completed.resolve()
            await go.promise
          }),
        )
        await completed.promise
      },
    })
    const other = defineJob({ type: 'tx.open_twice_other', run: () => 'meanwhile' })
    await using worker = await stage.work([job, other])
    const ids = await engine.enqueueBatch(job, [{}, {}])
    await expect.poll(() => open.length === 2 && worker.slots.running === 0).toBe(true)
    await expect.poll(waiting).toBeGreaterThan(0)
    const meanwhile = await engine.enqueue(other, {})
    expect(await log.ended(meanwhile)).toMatchObject({ outcome: 'completed' })
    go.resolve()
    await Promise.all(open)
    await Promise.all(ids.map((id) => log.ended(id, 'completed')))
    expect(worker.counters).toMatchObject({ completed: 3, lost: 0 })
  })

  it('tells a handler that goes on after a rollback of a cancellation', async () => {
    const { engine, log } = stage
    const back = deferred()
    const job = defineJob({
      type: 'tx.goes_on',
      run: async (_, ctx) => {
        const transaction = sql.begin(async (tx) => {
          await ctx.complete(tx)
          throw new Error('rolled back')
        })
        await transaction.catch(() => {})
        back.resolve()
        throw await fired(ctx.signal)
      },
    })
    await using _ = await stage.work([job])
    const id = await engine.enqueue(job, {})
    await back.promise
    await engine.cancel(id)
    expect(await log.ended(id)).toMatchObject({ outcome: 'cancelled' })
  })

  it('rolls the whole transaction back when the lease was lost, and the handler is told', async () => {
    const { engine, log, database } = stage
    const reached = deferred<number>()
    const go = deferred()
    const told = deferred<unknown>()
    const job = defineJob({
      type: 'tx.lost',
      run: async (_, ctx) => {
        if (ctx.token > 1) return 'elsewhere'
        reached.resolve(ctx.jobId)
        void fired(ctx.signal).then(told.resolve)
        await go.promise
        await sql.begin(async (tx) => {
          await tx`insert into ledger values (${ctx.jobId}, 'stale')`
          await ctx.complete(tx)
        })
        return 'here'
      },
    })
    await using _ = await stage.work([job])
    const id = await engine.enqueue(job, {})
    await reached.promise
    // Someone who knows the token ends the attempt behind the worker's back.
    await database.db.query('select fencepost.fail($1, 1, $2, retry_in => $3)', [
      id,
      'taken',
      '0 s',
    ])
    await log.ended(id, 'completed')
    go.resolve()
    expect(await told.promise).toMatchObject({ why: 'lease_lost' })
    await log.ended(id, 'lost')
    expect(await noted(id)).toEqual([])
    expect(await engine.job(id)).toMatchObject({ result: 'elsewhere' })
  })
})
