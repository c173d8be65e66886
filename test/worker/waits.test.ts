import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { defineJob } from '../../src/index.ts'
import { moveClock, restoreClock } from '../support/clock.ts'
import { Stage } from './stage.ts'

let stage: Stage
beforeAll(async () => {
  stage = await Stage.open()
})
afterAll(() => stage[Symbol.asyncDispose]())

describe('a handler that waits', () => {
  it('sleeps without a slot, and goes on when the time has passed', async () => {
    const { engine, log, database } = stage
    const job = defineJob({
      type: 'context.sleep',
      run: async (_, ctx) => {
        await ctx.sleep('cool down', '1h')
        return { attempt: ctx.attempt, token: ctx.token }
      },
    })
    await using worker = await stage.work([job], { concurrency: 1 })
    const id = await engine.enqueue(job, {})
    await log.ended(id, 'suspended')
    expect(await engine.job(id)).toMatchObject({ status: 'waiting', attempts: 0 })
    expect(worker.slots.running).toBe(0)
    await moveClock(database.db, '61 minutes')
    await log.ended(id, 'completed')
    await restoreClock(database.db)
    expect((await engine.job(id))?.result).toEqual({ attempt: 1, token: 2 })
  })

  const approval = defineJob({
    type: 'context.wait',
    run: async (_, ctx) => ({ got: await ctx.waitFor('approval', { timeout: '1h' }) }),
  })

  it('gets the data of resume()', async () => {
    const { engine, log } = stage
    await using _ = await stage.work([approval])
    const id = await engine.enqueue(approval, {})
    await log.ended(id, 'suspended')
    expect(await engine.job(id)).toMatchObject({ status: 'waiting', waitsFor: 'approval' })
    await engine.resume(id, { by: 'ada' })
    await log.ended(id, 'completed')
    expect((await engine.job(id))?.result).toEqual({ got: { by: 'ada' } })
  })

  it('gets nothing when the time passes first', async () => {
    const { engine, log, database } = stage
    await using _ = await stage.work([approval])
    const id = await engine.enqueue(approval, {})
    await log.ended(id, 'suspended')
    await moveClock(database.db, '61 minutes')
    await log.ended(id, 'completed')
    await restoreClock(database.db)
    expect((await engine.job(id))?.result).toEqual({})
  })
})
