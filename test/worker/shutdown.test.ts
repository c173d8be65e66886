import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { defineJob } from '../../src/index.ts'
import { refused } from '../support/sql.ts'
import { deferred, fired, Stage } from './stage.ts'

let stage: Stage
beforeAll(async () => {
  stage = await Stage.open()
})
afterAll(() => stage[Symbol.asyncDispose]())

const statusOf = async (name: string) =>
  (await stage.engine.workers()).find((worker) => worker.name === name)?.status

describe('stop()', () => {
  it('waits for handlers and sends their results', async () => {
    const { engine } = stage
    const started = deferred()
    const go = deferred()
    const job = defineJob({
      type: 'stop.waits',
      run: async () => {
        started.resolve()
        await go.promise
        return 'finished'
      },
    })
    const worker = await stage.work([job], { name: 'waits' })
    const id = await engine.enqueue(job, {})
    await started.promise
    const stopped = worker.stop()
    expect(worker.state).toBe('stopping')
    go.resolve()
    await stopped
    expect(worker.state).toBe('stopped')
    expect(await engine.job(id)).toMatchObject({ status: 'completed', result: 'finished' })
    expect(await statusOf('waits')).toBe('stopped')
  })

  it('gives back what has not started, and that does not count', async () => {
    const { engine, log } = stage
    let running = 0
    const job = defineJob({
      type: 'stop.unstarted',
      run: async (payload, ctx) => {
        if (payload !== 'stays') return
        running++
        await fired(ctx.signal)
      },
    })
    await engine.enqueueBatch(job, Array(300).fill('quick'))
    const ids = await engine.enqueueBatch(job, Array(20).fill('stays'))
    const worker = await stage.work([job], { concurrency: 4 })
    await expect.poll(() => running === 4 && worker.slots.queued > 0).toBe(true)
    await worker.stop({ deadline: 0 })
    const jobs = await Promise.all(ids.map((id) => engine.job(id)))
    const released = log.attempts.filter(
      ({ type, outcome }) => type === job.type && outcome === 'released',
    )
    expect(released.length).toBeGreaterThan(0)
    for (const { job: id } of released) {
      expect(await engine.job(Number(id))).toMatchObject({
        status: 'pending',
        attempts: 0,
        token: 1,
      })
    }
    expect(jobs.filter((each) => each?.status === 'running')).toEqual([])
  })

  it('tells handlers to stop after its deadline, and their jobs go on elsewhere at once', async () => {
    const { engine, log } = stage
    const started = deferred()
    const deaf = deferred()
    let running = 0
    const job = defineJob({
      type: 'stop.deadline',
      run: async (payload, ctx) => {
        if (ctx.token > 1) return ctx.worker
        if (++running === 2) started.resolve()
        if (payload === 'deaf') await deaf.promise
        throw await fired(ctx.signal)
      },
    })
    const worker = await stage.work([job], { name: 'first' })
    const [polite, stubborn] = await engine.enqueueBatch(job, ['polite', 'deaf'])
    await started.promise
    await worker.stop({ deadline: 100 })
    await using _ = await stage.work([job], { name: 'second' })
    for (const id of [polite, stubborn] as number[]) {
      await log.ended(id, 'completed')
      expect(await engine.job(id)).toMatchObject({ attempts: 2, result: 'second' })
      const attempts = await engine.attempts(id)
      expect(attempts[1]).toMatchObject({
        outcome: 'failed',
        error: 'the worker stopped before the handler had ended',
      })
    }
    deaf.resolve()
  })

  it('may be called twice, before start(), and with a wrong deadline', async () => {
    const job = defineJob({ type: 'stop.twice', run: () => {} })
    const worker = stage.engine.worker([job], { logger: stage.log })
    await expect(async () => worker.stop({ deadline: -1 })).rejects.toMatchObject({ code: 'JE003' })
    await Promise.all([worker.stop(), worker.stop()])
    await worker.stopped
    expect(worker.state).toBe('stopped')
    await refused(worker.start(), 'JE004')
  })

  it('is called by an operator who drains the worker', async () => {
    const { engine, database } = stage
    const job = defineJob({ type: 'stop.drain', run: () => {} })
    const worker = await stage.work([job], { name: 'drained', ttl: '4s' })
    await database.db.query('select fencepost.drain_worker($1)', [worker.id])
    await worker.stopped
    expect(await statusOf('drained')).toBe('stopped')
    void engine
  })
})

describe('a worker that was taken for lost', () => {
  it('aborts its handlers, registers again and goes on', async () => {
    const { engine, log, database } = stage
    const started = deferred<number>()
    const told = deferred<unknown>()
    const job = defineJob({
      type: 'lost.again',
      run: async (_, ctx) => {
        if (ctx.token > 1) return 'second'
        started.resolve(ctx.token)
        told.resolve(await fired(ctx.signal))
        return 'first'
      },
    })
    await using worker = await stage.work([job], { name: 'lost', ttl: '4s' })
    const id = await engine.enqueue(job, {})
    await started.promise
    const before = worker.id
    await database.db.query(
      "update fencepost_private.worker set status = 'lost', ended_at = fencepost_private.now() where worker_id = $1",
      [before],
    )
    expect(await told.promise).toMatchObject({ why: 'lease_lost' })
    await log.ended(id, 'completed')
    expect(worker.id).not.toBe(before)
    expect(await engine.job(id)).toMatchObject({ result: 'second', attempts: 2 })
    expect((await engine.attempts(id))[1]).toMatchObject({ outcome: 'lease_expired' })
  })

  it('takes a slot of its own when a double keeps taking its place', async () => {
    const { engine, log } = stage
    const job = defineJob({ type: 'lost.double', run: () => {} })
    await using one = await stage.work([job], { name: 'double', slot: 1, ttl: '1s' })
    await using two = await stage.work([job], { name: 'double', slot: 1, ttl: '1s' })
    await log.find(
      ({ level, msg }) => level === 'warn' && /a slot of its own|slot of its own/.test(msg),
    )
    const ids = await engine.enqueueBatch(job, Array(20).fill({}))
    await Promise.all(ids.map((id) => log.ended(id, 'completed')))
    void one
    void two
  })
})
