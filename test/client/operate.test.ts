import { afterAll, beforeAll, expect, it } from 'vitest'
import { defineJob, Fencepost, silentLogger } from '../../src/index.ts'
import { ownDatabase } from '../support/server.ts'
import { refused } from '../support/sql.ts'

const database = ownDatabase()
let engine: Fencepost
beforeAll(async () => {
  engine = new Fencepost({ url: database.url })
})
afterAll(async () => {
  await engine.close()
})

/** Dead letters of a type. */
async function buried(type: string, count: number): Promise<number[]> {
  const job = defineJob({
    type,
    retry: { maxAttempts: 1 },
    run: () => {
      throw new Error('broken')
    },
  })
  const ids = await engine.enqueueBatch(job, Array(count).fill({}))
  const worker = engine.worker([job], { logger: silentLogger })
  await worker.start()
  await expect.poll(async () => (await engine.stats(type))[0]?.deadLetter).toBe(count)
  await worker.stop()
  return ids
}

it('cancels what waits, with the reason in its history', async () => {
  const id = await engine.enqueue('waits', {}, { delay: '1h' })
  expect(await engine.cancel(id, 'not needed')).toBe('cancelled')
  expect(await engine.job(id)).toMatchObject({ status: 'cancelled' })
  const events = await engine.events(id)
  expect(events.map(({ kind }) => kind)).toEqual(['job.cancelled', 'job.enqueued'])
  expect(events[0]?.data).toEqual({ reason: 'not needed' })
  await refused(engine.cancel(id), 'JE004')
  await refused(engine.cancel(999_999), 'JE002')
})

it('replays a dead letter by id, and keeps its history', async () => {
  const [id] = (await buried('replay.one', 1)) as [number]
  await engine.replay(id)
  expect(await engine.job(id)).toMatchObject({ status: 'pending', attempts: 0, token: 1 })
  expect(await engine.attempts(id)).toHaveLength(1)
  await refused(engine.replay(id), 'JE004')
})

it('replays and discards what matches, after counting it', async () => {
  await buried('replay.many', 4)
  const filter = { type: 'replay.many' }
  expect(await engine.replayMatching(filter, { dryRun: true })).toBe(4)
  expect(await engine.replayMatching(filter, { max: 3 })).toBe(3)
  expect(await engine.discardMatching(filter, { dryRun: true })).toBe(1)
  expect(await engine.discardMatching(filter, { reason: 'obsolete' })).toBe(1)
  expect((await engine.stats('replay.many'))[0]).toMatchObject({ deadLetter: 0, ready: 3 })
})

it('gives a dead letter up', async () => {
  const [id] = (await buried('discard.one', 1)) as [number]
  await engine.discard(id, 'obsolete')
  expect(await engine.job(id)).toMatchObject({ status: 'discarded' })
  await refused(engine.discard(id), 'JE004')
})

it('changes a priority, and explains why a job waits', async () => {
  const id = await engine.enqueue('explained', {}, { priority: 1 })
  await engine.reprioritize(id, 9)
  expect(await engine.job(id)).toMatchObject({ priority: 9 })
  const reasons = await engine.explain(id)
  expect(reasons.map(({ reason }) => reason)).toContain('no_worker')
  await refused(engine.explain(999_999), 'JE002')
  await refused(engine.resume(id), 'JE004')
})

it('lists jobs and workers', async () => {
  const [first, second] = await engine.enqueueBatch('listed', [1, 2])
  const page = await engine.jobs({ type: 'listed' }, { max: 1 })
  expect(page.map(({ id }) => id)).toEqual([second])
  const rest = await engine.jobs({ type: 'listed' }, { after: second as number })
  expect(rest.map(({ id }) => id)).toEqual([first])
  expect((await engine.workers())[0]).toMatchObject({
    name: 'worker',
    status: 'stopped',
    slot: expect.any(Number),
  })
  expect(await engine.job(999_999)).toBeUndefined()
})
