import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { defineJob } from '../../src/index.ts'
import { deferred, fired, Stage } from './stage.ts'

let stage: Stage
beforeAll(async () => {
  stage = await Stage.open()
})
afterAll(() => stage[Symbol.asyncDispose]())

/** A handler that runs until its signal fires, and what the signal said. */
function waiting(type: string, settings: object = {}) {
  const started = deferred<number>()
  const told = deferred<{ why?: string; message?: string }>()
  const job = defineJob({
    type,
    ...settings,
    run: async (_, ctx) => {
      started.resolve(ctx.jobId)
      const reason = (await fired(ctx.signal)) as Error
      told.resolve(reason as never)
      throw reason
    },
  })
  return { job, started: started.promise, told: told.promise }
}

describe('cancel', () => {
  it('fires the signal of a running handler within a second', async () => {
    const { engine, log } = stage
    const { job, started, told } = waiting('cancel.running')
    await using _ = await stage.work([job])
    const id = await engine.enqueue(job, {})
    await started
    await stage.asleep()
    const asked = performance.now()
    expect(await engine.cancel(id, 'changed my mind')).toBe('cancel_requested')
    expect(await told).toMatchObject({ name: 'AbortError', why: 'cancelled' })
    expect(performance.now() - asked).toBeLessThan(1000)
    expect(await log.ended(id)).toMatchObject({ outcome: 'cancelled', verdict: 'cancelled' })
    expect(await engine.job(id)).toMatchObject({ status: 'cancelled' })
  })

  it('is heard with the heartbeat where notifications are not', async () => {
    const { engine, log } = stage
    const { job, started, told } = waiting('cancel.heartbeat')
    await using _ = await stage.work([job], { listen: false, ttl: '4s' })
    const id = await engine.enqueue(job, {})
    await started
    await engine.cancel(id)
    expect(await told).toMatchObject({ why: 'cancelled' })
    await log.ended(id, 'cancelled')
  })

  it('does not undo what a handler completes all the same', async () => {
    const { engine, log } = stage
    const started = deferred()
    const job = defineJob({
      type: 'cancel.completed',
      run: async (_, ctx) => {
        started.resolve()
        await fired(ctx.signal)
        return 'finished anyway'
      },
    })
    await using _ = await stage.work([job])
    const id = await engine.enqueue(job, {})
    await started.promise
    await engine.cancel(id)
    await log.ended(id, 'completed')
    expect(await engine.job(id)).toMatchObject({ status: 'completed', result: 'finished anyway' })
  })

  it('ends jobs that were claimed and have not started, without running them', async () => {
    const { engine } = stage
    const ran = new Set<number>()
    const job = defineJob({
      type: 'cancel.queued',
      payload: z.object({ stays: z.boolean() }),
      run: async ({ stays }, ctx) => {
        if (!stays) return
        ran.add(ctx.jobId)
        throw await fired(ctx.signal)
      },
    })
    // Many that end at once make the worker claim ahead; those that stay then keep others waiting.
    await engine.enqueueBatch(job, Array(300).fill({ stays: false }))
    const ids = await engine.enqueueBatch(job, Array(20).fill({ stays: true }))
    await using worker = await stage.work([job], { concurrency: 4 })
    await expect.poll(() => ran.size === 4 && worker.slots.queued > 0).toBe(true)
    // Those that run last of all: each that ends lets another start. Two claims at once may come in either order.
    const runLast = ids.toSorted((a, b) => Number(ran.has(a)) - Number(ran.has(b)))
    for (const id of runLast) await engine.cancel(id)
    const claimed = worker.counters.claimed - 300
    await expect.poll(() => worker.counters.cancelled).toBe(claimed)
    expect(claimed).toBeGreaterThan(4)
    expect(ran.size).toBe(4)
    const statuses = await Promise.all(ids.map(async (id) => (await engine.job(id))?.status))
    expect(new Set(statuses)).toEqual(new Set(['cancelled']))
  })
})

describe('a timeout', () => {
  it('fires the signal, and the attempt ends as timed out', async () => {
    const { engine, log } = stage
    const { job, started, told } = waiting('timeout.short', {
      timeout: '300ms',
      retry: { maxAttempts: 1 },
    })
    await using _ = await stage.work([job])
    const id = await engine.enqueue(job, {})
    await started
    expect(await told).toMatchObject({ why: 'timed_out' })
    expect(await log.ended(id)).toMatchObject({ outcome: 'timed_out', verdict: 'dead_letter' })
    const [attempt] = await engine.attempts(id)
    expect(attempt).toMatchObject({
      outcome: 'timed_out',
      error: expect.stringMatching(/timed out after \d+ ms/),
    })
  })

  it('gives the slot of a handler that does not listen to others', async () => {
    const { engine, log } = stage
    const go = deferred()
    const deaf = defineJob({
      type: 'timeout.deaf',
      timeout: '200ms',
      retry: { maxAttempts: 1 },
      run: () => go.promise,
    })
    const next = defineJob({ type: 'timeout.next', run: () => 'ran' })
    await using worker = await stage.work([deaf, next], {
      concurrency: 1,
      abortGrace: 200,
      ttl: '2s',
    })
    const stuck = await engine.enqueue(deaf, {}, { priority: 9 })
    const id = await engine.enqueue(next, {})
    await log.ended(id, 'completed')
    expect(log.lines).toContainEqual(
      expect.objectContaining({ level: 'warn', job: stuck, why: 'timed_out' }),
    )
    await log.ended(stuck)
    expect(await engine.job(stuck)).toMatchObject({ status: 'dead_letter' })
    go.resolve()
    expect(worker.slots.running).toBe(0)
  })
})

describe('an idle worker', () => {
  const echo = defineJob({ type: 'wake.echo', run: () => performance.now() })

  it('is woken by a notification although it polls once a minute', async () => {
    const { engine, log } = stage
    await using _ = await stage.work([echo], { poll: '1m' })
    for (let round = 0; round < 5; round++) {
      const id = await engine.enqueue(echo, {})
      await log.ended(id)
    }
  })

  it('is woken by a transaction that was open before it slept', async () => {
    const { engine, log, database } = stage
    await using _ = await stage.work([echo], { poll: '1m' })
    const first = await engine.enqueue(echo, {})
    await log.ended(first)
    const go = deferred()
    const inside = deferred<number>()
    const late = database.db.transaction(async (tx) => {
      inside.resolve(await engine.enqueue(echo, {}, { tx }))
      await go.promise
    })
    const id = await inside.promise
    go.resolve()
    await late
    await log.ended(id)
  })

  it('wakes when a delayed job is due', async () => {
    const { engine, log } = stage
    await using _ = await stage.work([echo], { poll: '1m' })
    const enqueued = performance.now()
    const id = await engine.enqueue(echo, {}, { delay: '700ms' })
    await log.ended(id)
    const waited = performance.now() - enqueued
    expect(waited).toBeGreaterThan(690)
    expect(waited).toBeLessThan(20_000) // its poll comes after a minute
  })

  it('finds work by polling where notifications are not', async () => {
    const { engine, log } = stage
    await using _ = await stage.work([echo], { listen: false, poll: '200ms' })
    const id = await engine.enqueue(echo, {})
    await log.ended(id)
  })

  it('wakes when a slot of a limited type comes free elsewhere', async () => {
    const { engine, log } = stage
    const go = deferred()
    const started = deferred()
    const limited = defineJob({
      type: 'wake.limited',
      maxRunning: 1,
      run: async (_, { jobId }) => {
        if (jobId !== first) return
        started.resolve()
        await go.promise
      },
    })
    let first = 0
    await using one = await stage.work([limited], { name: 'one', poll: '1m', concurrency: 1 })
    first = await engine.enqueue(limited, {})
    await started.promise
    const second = await engine.enqueue(limited, {})
    await using two = await stage.work([limited], { name: 'two', poll: '1m', concurrency: 1 })
    expect((await engine.job(second))?.status).toBe('pending')
    go.resolve()
    await log.ended(second)
    void one
    void two
  })
})
