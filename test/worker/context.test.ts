import { afterAll, beforeAll, expect, it } from 'vitest'
import { AttemptAbortedError, defineJob, PermanentError } from '../../src/index.ts'
import { begin } from '../support/runs.ts'
import { refused } from '../support/sql.ts'
import { deferred, Stage } from './stage.ts'

let stage: Stage
beforeAll(async () => {
  stage = await Stage.open()
})
afterAll(() => stage[Symbol.asyncDispose]())

it('tells a handler what it needs to know', async () => {
  const { engine, log } = stage
  const seen = deferred<object>()
  const job = defineJob({
    type: 'context.facts',
    retry: { maxAttempts: 7 },
    run: (payload, ctx) => {
      const { jobId, token, type, attempt, maxAttempts, priority, headers } = ctx
      const { idempotencyKey, tenant, worker, createdAt } = ctx
      ctx.log.info({ extra: 1 }, 'a line')
      seen.resolve({ payload, jobId, token, type, attempt, maxAttempts, priority, headers })
      return { idempotencyKey, tenant, worker, createdAt, run: ctx.runId, task: ctx.taskId }
    },
  })
  await using _ = await stage.work([job], { name: 'facts' })
  const id = await engine.enqueue(
    job,
    { a: 1 },
    { priority: 8, idempotencyKey: 'k', headers: { traceparent: '00-1' }, tenant: 'acme' },
  )
  expect(await seen.promise).toEqual({
    payload: { a: 1 },
    jobId: id,
    token: 1,
    type: 'context.facts',
    attempt: 1,
    maxAttempts: 7,
    priority: 8,
    headers: { traceparent: '00-1' },
  })
  await log.ended(id)
  const done = await engine.job(id)
  expect(done?.result).toEqual({
    idempotencyKey: 'k',
    tenant: 'acme',
    worker: 'facts',
    createdAt: done?.createdAt.toISOString(),
    run: null,
    task: null,
  })
  expect(log.lines).toContainEqual({
    level: 'info',
    msg: 'a line',
    job: id,
    type: 'context.facts',
    attempt: 1,
    worker: 'facts',
    extra: 1,
  })
})

it('tells a handler which task of which run it does: of the definition, an item, an undoing', async () => {
  const { db } = stage.database
  const told = new Map<string, unknown>()
  const gone = deferred()
  const tell = (type: string, ending = () => {}) =>
    defineJob({
      type,
      run: (_, { runId, taskId }) => {
        told.set(type, { runId, taskId })
        ending()
      },
    })
  await using _ = await stage.work([
    tell('context.first'),
    tell('context.item'),
    tell('context.undo', gone.resolve),
    tell('context.last', () => {
      throw new PermanentError('undo it')
    }),
  ])
  const run = await begin(
    db,
    {
      first: { type: 'context.first', compensate: 'context.undo' },
      each: { kind: 'map', over: '$.input.list', type: 'context.item', after: ['first'] },
      last: { type: 'context.last', after: ['each'] },
    },
    { list: ['only'] },
    { on_failure: 'compensate' },
  )
  await gone.promise
  const tasks = await run.rows()
  const idOf = (kind: string) => tasks.find((task) => task.kind === kind)?.id
  expect(Object.fromEntries(told)).toEqual({
    'context.first': { runId: run.id, taskId: (await run.task('first')).id },
    'context.item': { runId: run.id, taskId: idOf('item') },
    'context.undo': { runId: run.id, taskId: idOf('compensation') },
    'context.last': { runId: run.id, taskId: (await run.task('last')).id },
  })
})

it('keeps the latest progress', async () => {
  const { engine, log } = stage
  const told = deferred()
  const go = deferred()
  const job = defineJob({
    type: 'context.progress',
    run: async (_, ctx) => {
      await ctx.progress(0.1)
      await ctx.progress({ rows: 1200 })
      told.resolve()
      await go.promise
    },
  })
  await using _ = await stage.work([job])
  const id = await engine.enqueue(job, {})
  await told.promise
  expect(await engine.job(id)).toMatchObject({ status: 'running', progress: { rows: 1200 } })
  go.resolve()
  await log.ended(id)
})

it('runs a step once, however often the job is tried', async () => {
  const { engine, log } = stage
  const ran: string[] = []
  const job = defineJob({
    type: 'context.steps',
    retry: { baseDelay: 0 },
    run: async (_, ctx) => {
      const charge = await ctx.step('charge', () => {
        ran.push(`charge ${ctx.attempt}`)
        return { id: 'ch_1' }
      })
      await ctx.step('nothing', async () => {
        ran.push(`nothing ${ctx.attempt}`)
      })
      if (ctx.attempt === 1) throw new Error('after the steps')
      return charge
    },
  })
  await using _ = await stage.work([job])
  const id = await engine.enqueue(job, {})
  await log.ended(id, 'completed')
  expect(ran).toEqual(['charge 1', 'nothing 1'])
  expect((await engine.job(id))?.result).toEqual({ id: 'ch_1' })
})

it('gives a job back, and the attempt does not count', async () => {
  const { engine, log } = stage
  const job = defineJob({
    type: 'context.release',
    run: async (_, ctx) => {
      if (ctx.token === 1) await ctx.release()
      return ctx.attempt
    },
  })
  await using _ = await stage.work([job])
  const id = await engine.enqueue(job, {})
  await log.ended(id, 'released')
  await log.ended(id, 'completed')
  expect(await engine.job(id)).toMatchObject({ attempts: 1, result: 1, token: 2 })
})

it('refuses every write of a lost attempt with JE001, and fires its signal', async () => {
  const { engine, log, database } = stage
  const reached = deferred()
  const go = deferred()
  const refusals = deferred<string[]>()
  const job = defineJob({
    type: 'context.stale',
    run: async (_, ctx) => {
      if (ctx.token > 1) return
      reached.resolve()
      await go.promise
      const codes: string[] = []
      for (const write of [
        () => ctx.progress(1),
        () => ctx.step('s', () => 1),
        () => ctx.release(),
        () => ctx.sleep('z', '1s'),
      ]) {
        codes.push((await refused(write(), 'JE001')).code)
      }
      expect(ctx.signal.aborted).toBe(true)
      expect(ctx.signal.reason).toBeInstanceOf(AttemptAbortedError)
      refusals.resolve(codes)
    },
  })
  await using _ = await stage.work([job])
  const id = await engine.enqueue(job, {})
  await reached.promise
  await database.db.query('select fencepost.fail($1, 1, $2, retry_in => $3)', [id, 'taken', '0 s'])
  go.resolve()
  expect(await refusals.promise).toHaveLength(4)
  await log.ended(id, 'completed')
})
