import { afterAll, beforeAll, expect, it } from 'vitest'
import { checkInvariants } from '../../src/database/engine.ts'
import { defineJob, Fencepost } from '../../src/index.ts'
import { startProxy, type TcpProxy } from '../support/proxy.ts'
import { deferred, fired, Stage } from './stage.ts'

let stage: Stage
let proxy: TcpProxy
/** The same database, through a proxy that misbehaves. */
let far: Fencepost
beforeAll(async () => {
  stage = await Stage.open()
  proxy = await startProxy(stage.database.url)
  far = new Fencepost({ url: proxy.url })
})
afterAll(async () => {
  await far.close()
  await proxy.close()
  await stage[Symbol.asyncDispose]()
})

it('keeps what handlers finish while the database is away, and sends it when it is back', async () => {
  const { engine, log } = stage
  const started = deferred()
  const go = deferred()
  let runs = 0
  const job = defineJob({
    type: 'outage.kept',
    run: async () => {
      if (++runs === 5) started.resolve()
      await go.promise
      return 'kept'
    },
  })
  const worker = far.worker([job], { logger: log, concurrency: 5, listen: false })
  await worker.start()
  const ids = await engine.enqueueBatch(job, Array(5).fill({}))
  await started.promise
  await proxy.close()
  go.resolve()
  await log.find(({ msg }) => /rounds fail; .* results are kept/.test(msg))
  expect(worker.counters.completed).toBe(0)
  proxy = await reopen(proxy)
  await Promise.all(ids.map((id) => log.ended(id, 'completed')))
  await log.find(({ msg }) => /rounds go well again/.test(msg))
  for (const id of ids) expect(await engine.job(id)).toMatchObject({ attempts: 1, result: 'kept' })
  expect(runs).toBe(5)
  await worker.stop()
})

it('loses no job and completes none twice when connections are reset at any moment', async () => {
  const { engine, log } = stage
  const runs = new Map<number, number>()
  const job = defineJob({
    type: 'outage.resets',
    run: async (_, { jobId, token }) => {
      runs.set(jobId, (runs.get(jobId) ?? 0) + 1)
      return token
    },
  })
  const ids = await engine.enqueueBatch(job, Array(2_000).fill({}))
  const worker = far.worker([job], { logger: log, concurrency: 20 })
  await worker.start()
  for (let round = 1; round <= 8; round++) {
    const next = Math.min(2_000, runs.size + 200)
    await expect.poll(() => runs.size >= next, { interval: 5 }).toBe(true)
    proxy.reset()
  }
  await expect
    .poll(async () => (await engine.stats(job.type))[0])
    .toMatchObject({ completedTotal: 2_000, running: 0, ready: 0 })
  expect(runs.size).toBe(ids.length)
  // What was claimed as a connection broke is given back at once, and none waits for its lease to expire.
  expect((await engine.stats(job.type))[0]).toMatchObject({ leaseExpiredTotal: 0 })
  // Whatever answers were lost, each attempt's line says what the engine has recorded.
  const told = () =>
    new Set(
      log.attempts
        .filter(({ type, outcome }) => type === job.type && outcome === 'completed')
        .map(({ job: id }) => id),
    )
  await expect.poll(() => told().size).toBe(2_000)
  await worker.stop()
  expect(await checkInvariants(stage.database.db)).toEqual([])
})

it('reports a job once that was completed although its answer was lost, and the worker was taken for lost', async () => {
  const { engine, log } = stage
  const started = deferred()
  const go = deferred()
  const job = defineJob({
    type: 'outage.doubt',
    run: async () => {
      started.resolve()
      await go.promise
    },
  })
  const worker = far.worker([job], { logger: log, ttl: '1d' })
  await worker.start()
  const id = await engine.enqueue(job, {})
  await started.promise
  // The result arrives, and its answer is on its way for long enough to be lost.
  proxy.latency = 1_000
  go.resolve()
  await expect.poll(async () => (await engine.job(id))?.status, { interval: 5 }).toBe('completed')
  await stage.database.db.query('select fencepost.stop_worker($1)', [worker.id])
  proxy.reset()
  proxy.latency = 0
  await log.find(({ msg }) => /taken for lost/.test(msg))
  const next = await engine.enqueue(job, {})
  await log.ended(next, 'completed')
  await log.ended(id, 'completed')
  await worker.stop()
  expect(log.attempts.filter((line) => line.job === id)).toHaveLength(1)
})

it('hears once it is back that a job was cancelled meanwhile, and not with its next heartbeat', async () => {
  const { engine, log } = stage
  const started = deferred()
  const told = deferred<unknown>()
  const job = defineJob({
    type: 'outage.cancelled',
    run: async (_, { signal }) => {
      started.resolve()
      told.resolve(await fired(signal))
      throw signal.reason
    },
  })
  const worker = far.worker([job], { logger: log, ttl: '1d' })
  await worker.start()
  const id = await engine.enqueue(job, {})
  await started.promise
  await stage.asleep()
  await proxy.close()
  await engine.cancel(id)
  proxy = await reopen(proxy)
  expect(await told.promise).toMatchObject({ why: 'cancelled' })
  await log.ended(id, 'cancelled')
  await worker.stop()
})

it('stops in bounded time although nothing answers', async () => {
  const { engine, log } = stage
  const started = deferred()
  const go = deferred()
  const job = defineJob({
    type: 'outage.stop',
    run: async () => {
      started.resolve()
      await go.promise
    },
  })
  const worker = far.worker([job], { logger: log })
  await worker.start()
  await engine.enqueue(job, {})
  await started.promise
  proxy.blackHole = true
  go.resolve()
  const asked = performance.now()
  await worker.stop({ deadline: '200ms' })
  expect(performance.now() - asked).toBeLessThan(20_000)
  proxy.blackHole = false
})

it('waits for a database that is not there yet', async () => {
  const { engine, log } = stage
  const job = defineJob({ type: 'outage.late', run: () => {} })
  await proxy.close()
  const worker = far.worker([job], { logger: log })
  const start = worker.start()
  await log.find(({ msg }) => /trying again/.test(msg))
  proxy = await reopen(proxy)
  await start
  const id = await engine.enqueue(job, {})
  await log.ended(id, 'completed')
  await worker.stop()
})

it('gives up waiting when it is stopped', async () => {
  const { log } = stage
  const nowhere = new Fencepost({ url: 'postgresql://postgres@127.0.0.1:1/nowhere' })
  const worker = nowhere.worker([defineJob({ type: 'outage.never', run: () => {} })], {
    logger: log,
  })
  const start = worker.start()
  await worker.stop({ deadline: 0 })
  await start
  expect(worker.state).toBe('stopped')
  await nowhere.close()
})

/** A proxy in the place of one that was closed. */
async function reopen(closed: TcpProxy): Promise<TcpProxy> {
  return startProxy(stage.database.url, Number(new URL(closed.url).port))
}
