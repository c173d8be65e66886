import { expect, it } from 'vitest'
import { moveClock } from '../support/clock.ts'
import { maintain } from '../support/engine.ts'
import { begin, expectSound, publish } from '../support/runs.ts'
import { testDatabase } from '../support/server.ts'
import { Session } from '../support/sessions.ts'
import { one } from '../support/sql.ts'

// While any snapshot is held, what has fired and expired leaves its entries in the indexes. Housekeeping, which looks
// each second, does not walk them again.

it('under a held snapshot, looking for what is due costs the same after 4,000 timers and gates as before', async () => {
  await using database = await testDatabase()
  const { db } = database
  const timers = await publish(db, { t: { kind: 'timer', delay: '1 minute' } })
  const gated = await publish(db, { a: { kind: 'signal', signal: 's' }, b: { after: ['a'] } })
  await using holder = await Session.open(database.url)
  await using worker = await Session.open(database.url)
  await holder.begin('repeatable read')
  await holder.query('select 1')

  /** Pages that a look touches when nothing is due, and when one timer is. */
  async function pages(): Promise<number[]> {
    const touched: number[] = []
    for (let n = 0; n < 3; n++) {
      if (n === 2) {
        await one(db, `select fencepost.start_run($1)`, [timers])
        await moveClock(db, '61 s')
      }
      const [plan] = await worker.query<{ 'QUERY PLAN': [{ Plan: Record<string, number> }] }>(
        `explain (analyze, buffers, timing off, format json) select fencepost_private.settle_due_runs(500, '5 minutes')`,
      )
      const root = plan?.['QUERY PLAN'][0].Plan ?? {}
      touched.push((root['Shared Hit Blocks'] ?? 0) + (root['Shared Read Blocks'] ?? 0))
    }
    return touched.slice(1) // the first one plans
  }

  await pages()
  const before = await pages()
  for (const workflow of [timers, gated]) {
    await one(
      db,
      `select cardinality(fencepost.start_runs($1, array_fill('{}'::jsonb, array[2000])))`,
      [workflow],
    )
  }
  await one(
    db,
    `select count(fencepost.request_approval(id, expires_after => '1 minute'))
     from fencepost.tasks where name = 'b' and status = 'pending'`,
  )
  await moveClock(db, '61 s')
  while ((await one<number>(db, 'select fencepost_private.settle_due_runs(1000)')) > 0);
  await moveClock(db, '10 minutes')
  const after = await pages()
  await holder.rollback()
  for (const [index, touched] of after.entries())
    expect(touched, `${before} pages became ${after}`).toBeLessThan(
      1.5 * Number(before[index]) + 20,
    )
  await expectSound(db)
}, 120_000)

it('what was held for longer than that, or committed late, is found by the look of each minute', async () => {
  await using database = await testDatabase()
  const { db } = database
  const run = await begin(db, { t: { kind: 'timer', delay: '1 minute' } })
  await maintain(db)
  await run.call('pause_run')
  await moveClock(db, '1 hour')
  await maintain(db)
  await run.call('resume_run')
  expect(await one(db, `select fencepost_private.settle_due_runs(500, '5 minutes')`)).toBe(0)
  await moveClock(db, '61 s')
  await maintain(db)
  expect(await run.status()).toBe('completed')
})

it('a run that somebody holds, with more timers than one pass takes, keeps no other run waiting', async () => {
  await using database = await testDatabase()
  const { db } = database
  const timer = { kind: 'timer', delay: '1 minute' }
  const many = await publish(db, { a: timer, b: timer, c: timer, d: timer, e: timer })
  const single = await publish(db, { t: timer })
  const held = await one<number>(db, 'select fencepost.start_run($1)', [many])
  const other = await one<number>(db, 'select fencepost.start_run($1)', [single])
  await moveClock(db, '61 s')
  await using holder = await Session.open(database.url)
  await holder.begin()
  await holder.query('select from fencepost_private.run where run_id = $1 for update', [held])
  expect(await one(db, `select fencepost_private.settle_due_runs(3, '5 minutes')`)).toBe(1)
  expect(await one(db, 'select status from fencepost.runs where id = $1', [other])).toBe(
    'completed',
  )
  await holder.rollback()
})
