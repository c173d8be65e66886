import { describe, expect, it } from 'vitest'
import { moveClock, restoreClock } from '../../support/clock.ts'
import {
  bury,
  claim,
  claimOne,
  enqueue,
  freshType,
  kinds,
  maintain,
  started,
} from '../../support/engine.ts'
import { ownDatabase } from '../../support/server.ts'
import { one, refused } from '../../support/sql.ts'

const database = ownDatabase()
const db = () => database.db

const reprioritize = (id: number, priority: number | null) =>
  db().query('select fencepost.reprioritize($1, $2)', [id, priority])

describe('reprioritize', () => {
  it('moves a ready job to the end of its new line, both ways', async () => {
    const type = freshType()
    const ids: number[] = []
    for (const priority of [5, 5, 8]) ids.push(await enqueue(db(), type, { priority }))
    await reprioritize(ids[1] as number, 8)
    await reprioritize(ids[0] as number, 0)
    const claimed = await claim(db(), type, 10)
    expect(claimed.map((job) => [job.job_id, job.priority])).toEqual([
      [ids[2], 8],
      [ids[1], 8],
      [ids[0], 0],
    ])
    expect(await kinds(db(), ids[1] as number)).toEqual(['job.reprioritized'])
  })

  it('is found also where claims had long passed its id', async () => {
    const type = freshType()
    const old = await enqueue(db(), type, { priority: 1 })
    for (let n = 0; n < 3; n++) {
      await enqueue(db(), type, { priority: 7 })
      await moveClock(db(), '1 s')
      await claimOne(db(), type)
    }
    await reprioritize(old, 7)
    expect(await claimOne(db(), type)).toMatchObject({ job_id: old, priority: 7 })
    await restoreClock(db())
  })

  it('moves delayed and waiting jobs too', async () => {
    const type = freshType()
    const delayed = await enqueue(db(), type, { delay: '1 s', priority: 2 })
    const waiting = await started(db(), type, { priority: 3 })
    await one(db(), 'select fencepost.suspend($1, 1)', [waiting.job_id])
    await reprioritize(delayed, 9)
    await reprioritize(waiting.job_id, 8)
    await one(db(), 'select fencepost.resume($1)', [waiting.job_id])
    await moveClock(db(), '2 s')
    await maintain(db())
    const claimed = await claim(db(), type, 10)
    expect(claimed.map((job) => [job.job_id, job.priority])).toEqual([
      [delayed, 9],
      [waiting.job_id, 8],
    ])
    await restoreClock(db())
  })

  it('does nothing when the priority is the same', async () => {
    const type = freshType()
    const id = await enqueue(db(), type)
    await reprioritize(id, 5)
    expect(await kinds(db(), id)).toEqual([])
  })

  it('refuses a job that runs or has ended, a wrong priority, an unknown job', async () => {
    const running = await started(db(), freshType())
    expect((await refused(reprioritize(running.job_id, 1), 'JE004')).message).toMatch(/is running/)
    await bury(db(), running)
    expect((await refused(reprioritize(running.job_id, 1), 'JE004')).message).toMatch(
      /is dead_letter/,
    )
    const id = await enqueue(db(), freshType())
    for (const priority of [-1, 10, null]) await refused(reprioritize(id, priority), 'JE003')
    await refused(reprioritize(9_999_999, 1), 'JE002')
  })
})
