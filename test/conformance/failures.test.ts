import { beforeEach, describe, expect, it } from 'vitest'
import { moveClock } from '../support/clock.ts'
import { drivers } from './drivers.ts'
import { Stage } from './stage.ts'

/** What a job that failed waits for at least, in ms: half of its type's backoff. */
const FIRST_BACKOFF = 600_000

describe.each(drivers)('the $name worker', (driver) => {
  const stage = new Stage(driver)
  // longer than a test takes: who wants the next attempt moves the clock
  beforeEach(() =>
    stage.db.query(`select fencepost.configure_type($1, backoff_base => '20 minutes')`, [
      stage.type,
    ]),
  )

  it('fails an attempt with its error; the job waits, and then is tried again', async () => {
    await stage.start()
    const message = `it's broken: "ä" | $HOME\nand a second line`
    const id = await stage.enqueue({ do: 'fail', key: 'twice', times: 1, message, value: 1 })
    await expect.poll(() => stage.outcomes(id)).toEqual(['failed'])
    const failed = await stage.job(id)
    expect(failed.last_error?.replaceAll('\\n', '\n').replaceAll("\\'", "'")).toContain(message)
    expect(failed.status).toBe('pending')
    expect(failed.available_at.getTime() - failed.updated_at.getTime()).toBeGreaterThanOrEqual(
      FIRST_BACKOFF,
    )
    await moveClock(stage.db, '1 hour')
    const job = await stage.reach(id, 'completed')
    expect(job.result).toEqual({ echo: 1 })
    expect(await stage.outcomes(id)).toEqual(['failed', 'completed'])
  })

  it('fails until the attempts are used up: then the job is a dead letter', async () => {
    await stage.start()
    const task = { do: 'fail', key: 'never', times: 99, message: 'never works' }
    const id = await stage.enqueue(task, { maxAttempts: 2 })
    await expect.poll(() => stage.outcomes(id)).toEqual(['failed'])
    await moveClock(stage.db, '1 hour')
    const job = await stage.reach(id, 'dead_letter')
    expect(job.last_error).toContain('never works')
    expect(await stage.outcomes(id)).toEqual(['failed', 'failed'])
  })

  it('can say that trying again is useless', async () => {
    await stage.start()
    const id = await stage.enqueue({ do: 'permanent', key: 'useless', message: 'no such address' })
    const job = await stage.reach(id, 'dead_letter')
    expect(job.last_error).toContain('no such address')
    expect(await stage.outcomes(id)).toEqual(['failed'])
  })

  it('goes on after a failure', async () => {
    await stage.start()
    const failing = await stage.enqueue({ do: 'permanent', key: 'first', message: 'bad' })
    const next = await stage.enqueue({ do: 'echo', key: 'second' })
    await stage.reach(failing, 'dead_letter')
    await stage.reach(next, 'completed')
  })

  it('fails an attempt whose result the engine refuses', async () => {
    const worker = await stage.start()
    await stage.db.query('select fencepost.configure_type($1, max_payload_bytes => 200)', [
      stage.type,
    ])
    const value = 'x'.repeat(120)
    const id = await stage.enqueue(value, { maxAttempts: 1 })
    await stage.db.query('select fencepost.configure_type($1, max_payload_bytes => 50)', [
      stage.type,
    ])
    const job = await stage.reach(id, 'dead_letter')
    expect(job.last_error).toContain('too large')
    expect(worker.isRunning).toBe(true)
  })
})
