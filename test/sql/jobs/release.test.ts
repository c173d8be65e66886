import { describe, expect, it } from 'vitest'
import {
  claim,
  claimOne,
  complete,
  enqueue,
  enqueueBatch,
  freshType,
  outcomes,
  places,
  settings,
  started,
  status,
} from '../../support/engine.ts'
import { ownDatabase } from '../../support/server.ts'
import { one, refused } from '../../support/sql.ts'

const database = ownDatabase()
const db = () => database.db

describe('release', () => {
  it('gives a job back at once, and the attempt does not count', async () => {
    const type = freshType()
    await settings(db(), type, { max_attempts: 1 })
    const id = await enqueue(db(), type)
    for (let token = 1; token <= 3; token++) {
      const job = await claimOne(db(), type)
      expect(job).toMatchObject({ job_id: id, token, attempt: 1 })
      await one(db(), 'select fencepost.release($1, $2)', [id, token])
      expect(await places(db(), id)).toEqual(['ready'])
      await refused(complete(db(), job), 'JE001')
    }
    expect(await outcomes(db(), id)).toEqual(['released', 'released', 'released'])
  })

  it('refuses a stale token and an unknown job', async () => {
    const job = await started(db(), freshType())
    await refused(db().query('select fencepost.release($1, 2)', [job.job_id]), 'JE001')
    await refused(db().query('select fencepost.release(9999999, 1)'), 'JE002')
    expect(await status(db(), job.job_id)).toBe('running')
  })
})

describe('release_many', () => {
  it('gives back what is held and passes the rest over', async () => {
    const type = freshType()
    await enqueueBatch(db(), type, 3)
    const ids = (await claim(db(), type, 3)).map((job) => job.job_id)
    const rows = await db().query('select * from fencepost.release_many($1, $2) order by 1', [
      ids,
      [1, 9, 1],
    ])
    expect(rows).toEqual([
      { job_id: ids[0], token: 1 },
      { job_id: ids[2], token: 1 },
    ])
    expect((await claim(db(), type, 3)).map((job) => job.job_id)).toEqual([ids[0], ids[2]])
  })

  it('refuses arrays of different length, and does nothing with empty ones', async () => {
    await refused(db().query('select fencepost.release_many(array[1], array[]::int[])'), 'JE003')
    expect(await db().query('select * from fencepost.release_many(null, null)')).toEqual([])
  })
})
