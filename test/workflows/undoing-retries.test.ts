import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { bury } from '../support/engine.ts'
import { begin, expectSound, type Run } from '../support/runs.ts'
import { ownDatabase } from '../support/server.ts'
import { one } from '../support/sql.ts'
import { saga, Undoing } from './undoing.ts'

const database = ownDatabase()
const db = () => database.db
afterEach(() => expectSound(db()))

const limit = (type: string, bytes: number) =>
  one(db(), 'select fencepost.configure_type($1, max_payload_bytes => $2)', [type, bytes])

describe('an undoing that failed', () => {
  let undoing: Undoing
  let run: Run
  beforeEach(async () => {
    undoing = new Undoing(db())
    run = await begin(db(), { a: undoing.of(), b: undoing.of('a'), c: { after: ['b'] } }, {}, saga)
    await run.complete('a')
    await run.complete('b')
  })
  const reasons = (task: string) =>
    db().query<{ reason: string; release: string | null }>(
      'select reason, release from fencepost.explain_task($1, $2)',
      [run.id, task],
    )

  it('is tried again by retry_run, and nothing else is; explain_task knows it all along', async () => {
    await run.bury('c')
    expect((await reasons('b')).map(({ reason }) => reason)).toEqual([
      'it is completed',
      `its undoing by ${undoing.type}: no_worker`,
    ])
    expect(await reasons('a')).toMatchObject([
      { reason: 'it is completed' },
      {
        reason: `its undoing by ${undoing.type} waits`,
        release: `select * from fencepost.explain_task(${run.id}, 'b')`,
      },
    ])
    await bury(db(), await undoing.claim(), 'no way back')
    expect(await run.status()).toBe('failed')
    expect(await run.call('retry_run')).toBe(1)
    await bury(db(), await undoing.claim(), 'no way back')
    const [, failed] = await reasons('b')
    expect(failed?.reason).toBe(`its undoing by ${undoing.type} is failed`)
    await one(db(), String(failed?.release))
    expect(await undoing.all()).toEqual(['b', 'a'])
    expect(await run.status()).toBe('compensated')
    expect((await reasons('a')).map(({ reason }) => reason)).toEqual([
      'it is completed',
      'it was undone',
    ])
  })

  it.each(['without a job, since its payload was refused', 'as its job was cancelled'])(
    '%s',
    async (how) => {
      if (how.startsWith('without')) await limit(undoing.type, 10)
      await run.bury('c')
      if (how.startsWith('as')) {
        const { job_id } = await undoing.claim()
        await one(db(), 'select fencepost.release($1, 1)', [job_id])
        await one(db(), 'select fencepost.cancel($1)', [job_id])
      }
      expect(await run.status()).toBe('failed')
      await limit(undoing.type, 10_000)
      expect(await run.call('retry_run')).toBe(1)
      expect(await undoing.all()).toEqual(['b', 'a'])
      expect(await run.status()).toBe('compensated')
    },
  )
})
