import { describe, expect, it } from 'vitest'
import { moveClock } from '../support/clock.ts'
import { drivers } from './drivers.ts'
import { SOON, Stage } from './stage.ts'

describe.each(drivers)('the $name worker', (driver) => {
  const stage = new Stage(driver)

  it('is refused when its lease was lost, and goes on', async () => {
    const worker = await stage.start()
    const id = await stage.enqueue({ do: 'hold', key: 'lost', value: 'late' })
    await stage.begun('lost')
    await stage.db.query(
      'select fencepost.release(id, token) from fencepost_private.lease where id = $1',
      [id],
    )
    stage.go('lost')
    const job = await stage.reach(id, 'completed')
    expect(job.result).toEqual({ echo: 'late' })
    expect(await stage.outcomes(id)).toEqual(['released', 'completed'])
    expect(worker.isRunning).toBe(true)
  })

  it('is killed: its job runs elsewhere', async () => {
    const first = await stage.start()
    const id = await stage.enqueue({ do: 'hold', key: 'orphan' })
    await stage.begun('orphan')
    await first.kill()
    await stage.start()
    await silence(stage)
    await stage.begun('orphan', 2)
    stage.go('orphan')
    await stage.reach(id, 'completed')
    expect(await stage.outcomes(id)).toEqual(['lease_expired', 'completed'])
    expect(await stage.workers('lost')).toBe(1)
  })

  it('keeps its job while its connections are cut, and completes it', async () => {
    await stage.start()
    const id = await stage.enqueue({ do: 'hold', key: 'cut' })
    await stage.begun('cut')
    await stage.db.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where datname = current_database() and pid <> pg_backend_pid()`,
    )
    stage.go('cut')
    await stage.reach(id, 'completed')
    expect(await stage.outcomes(id)).toEqual(['completed'])
    const next = await stage.enqueue({ do: 'echo', key: 'next' })
    await stage.reach(next, 'completed')
  })

  it('never runs a job twice at once, beside others of its kind', async () => {
    await stage.start()
    await stage.start()
    const ids: number[] = []
    for (let i = 0; i < 20; i++) ids.push(await stage.enqueue({ do: 'echo', key: `job-${i}` }))
    for (const id of ids) await stage.reach(id, 'completed')
    const ledger = stage.ledger()
    expect(ledger.length).toBe(40)
    expect(new Set(ledger).size).toBe(40)
  })

  it('ends when it is asked to, after the job in hand, and says goodbye', async () => {
    const worker = await stage.start()
    const id = await stage.enqueue({ do: 'hold', key: 'last' })
    await stage.begun('last')
    const code = worker.stop()
    stage.go('last')
    expect(await code).toBe(0)
    expect((await stage.job(id)).status).toBe('completed')
    expect(await stage.workers('stopped')).toBe(1)
  })

  it('idles on an empty queue, without a complaint, and wakes for work', async () => {
    const worker = await stage.start()
    const before = await transactions(stage)
    await new Promise((resolve) => setTimeout(resolve, 3_000)) // how busy it is in this time
    expect((await transactions(stage)) - before).toBeLessThan(40)
    expect(worker.output).toBe('')
    const id = await stage.enqueue({ do: 'echo', key: 'at last' })
    await stage.reach(id, 'completed')
  })
})

/** Lets time pass in two steps until whoever does not speak any more is lost, and who does is not. */
async function silence(stage: Stage): Promise<void> {
  for (const by of ['4 minutes', '4 minutes']) {
    await moveClock(stage.db, by)
    await expect.poll(() => fresh(stage), SOON).toBe(1)
    await stage.maintain()
  }
}

/** How many workers of this test gave a sign of life in the last seconds. */
async function fresh(stage: Stage): Promise<number> {
  const rows = await stage.db.query<{ count: number }>(
    `select count(*) from fencepost.workers
     where types @> array[$1] and status = 'active' and last_heartbeat > fencepost_private.now() - interval '11 s'`,
    [stage.type],
  )
  return rows[0]?.count ?? 0
}

/** Transactions of this database so far, as far as its sessions have told. */
async function transactions(stage: Stage): Promise<number> {
  const rows = await stage.db.query<{ count: number }>(
    `select xact_commit + xact_rollback as count from pg_stat_database where datname = current_database()`,
  )
  return rows[0]?.count ?? 0
}
