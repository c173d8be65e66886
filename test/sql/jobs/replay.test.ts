import { afterEach, describe, expect, it } from 'vitest'
import { moveClock, restoreClock } from '../../support/clock.ts'
import {
  bury,
  claim,
  claimOne,
  complete,
  enqueue,
  freshType,
  kinds,
  maintain,
  outcomes,
  places,
  started,
  status,
} from '../../support/engine.ts'
import { ownDatabase } from '../../support/server.ts'
import { one, refused } from '../../support/sql.ts'

const database = ownDatabase()
const db = () => database.db
afterEach(() => restoreClock(db()))

const replay = (id: number) => db().query('select fencepost.replay($1)', [id])
const dead = async (type: string) => {
  const job = await started(db(), type)
  await bury(db(), job, 'broken')
  return job
}

describe('a dead letter', () => {
  it('returns to work by replay, with its attempts reset and its token growing', async () => {
    const type = freshType()
    const job = await dead(type)
    await replay(job.job_id)
    expect(await places(db(), job.job_id)).toEqual(['ready'])
    const next = await claimOne(db(), type)
    expect(next).toMatchObject({ job_id: job.job_id, token: 2, attempt: 1 })
    await refused(complete(db(), job), 'JE001')
    await complete(db(), next)
    expect(await kinds(db(), job.job_id)).toEqual([
      'job.dead_lettered',
      'job.replayed',
      'job.completed',
    ])
    expect(await outcomes(db(), job.job_id)).toEqual(['failed', 'completed'])
    const [event] = await db().query(
      `select data, actor from fencepost_private.event where job_id = $1 and kind = 'job.replayed'`,
      [job.job_id],
    )
    expect(event).toMatchObject({ data: { final_error: 'broken' }, actor: expect.any(String) })
  })

  it('is moved by nothing else, however long it lies', async () => {
    const type = freshType()
    const job = await dead(type)
    for (const [word, call] of [
      ['complete', 'select fencepost.complete($1, 1)'],
      ['fail', 'select fencepost.fail($1, 1)'],
      ['release', 'select fencepost.release($1, 1)'],
      ['suspend', 'select fencepost.suspend($1, 1)'],
      ['step', `select fencepost.step($1, 1, 'x')`],
      ['progress', `select fencepost.progress($1, 1, '1')`],
    ] as const) {
      expect((await refused(db().query(call, [job.job_id]), 'JE001')).detail, word).toBe(
        'the job is dead_letter',
      )
    }
    for (const call of [
      'select fencepost.cancel($1)',
      'select fencepost.resume($1)',
      'select fencepost.reprioritize($1, 9)',
    ]) {
      await refused(db().query(call, [job.job_id]), 'JE004')
    }
    for (let n = 0; n < 24; n++) {
      await moveClock(db(), '16 days')
      await maintain(db())
      expect(await claim(db(), type)).toEqual([])
    }
    expect(await status(db(), job.job_id)).toBe('dead_letter')
    expect(await places(db(), job.job_id)).toEqual(['dead_letter'])
    await replay(job.job_id)
    expect((await claimOne(db(), type)).job_id).toBe(job.job_id)
  })

  it('is replayed once, and only a dead letter is', async () => {
    const type = freshType()
    const job = await dead(type)
    await replay(job.job_id)
    expect((await refused(replay(job.job_id), 'JE004')).message).toMatch(
      /is pending and cannot be replayed/,
    )
    await complete(db(), await claimOne(db(), type))
    expect((await refused(replay(job.job_id), 'JE004')).message).toMatch(/is completed/)
    await refused(replay(9_999_999), 'JE002')
    await refused(db().query('select fencepost.replay(null)'), 'JE002')
  })

  it('dies again with its own attempts', async () => {
    const type = freshType()
    const id = await enqueue(db(), type, { max_attempts: 2 })
    for (let life = 0; life < 2; life++) {
      for (let n = 0; n < 2; n++) {
        const job = await claimOne(db(), type)
        expect(job.attempt).toBe(n + 1)
        await db().query('select fencepost.fail($1, $2, retry_in => $3)', [id, job.token, '0'])
      }
      expect(await status(db(), id)).toBe('dead_letter')
      await replay(id)
    }
    expect((await claimOne(db(), type)).token).toBe(5)
  })
})

describe('discard', () => {
  const discard = (id: number, reason: string | null = null) =>
    db().query('select fencepost.discard($1, $2)', [id, reason])

  it('gives a dead letter up for good', async () => {
    const job = await dead(freshType())
    await discard(job.job_id, 'test data')
    expect(await status(db(), job.job_id)).toBe('discarded')
    expect(await places(db(), job.job_id)).toEqual([])
    const [event] = await db().query(
      `select data from fencepost_private.event where job_id = $1 and kind = 'job.discarded'`,
      [job.job_id],
    )
    expect(event?.data).toEqual({ reason: 'test data', final_error: 'broken' })
    await refused(replay(job.job_id), 'JE004')
    await refused(discard(job.job_id), 'JE004')
  })

  it('refuses a job that is no dead letter', async () => {
    const id = await enqueue(db(), freshType())
    expect((await refused(discard(id), 'JE004')).message).toMatch(
      /is pending and cannot be discarded/,
    )
    await refused(discard(9_999_999), 'JE002')
    expect(
      await one(db(), 'select count(*) from fencepost_private.ready where id = $1', [id]),
    ).toBe(1)
  })
})
