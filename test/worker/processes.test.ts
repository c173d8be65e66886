import { afterAll, beforeAll, expect, it } from 'vitest'
import * as sql from '../../src/database/engine.ts'
import { defineJob } from '../../src/index.ts'
import { refused } from '../support/sql.ts'
import { WorkerProcess } from './processes.ts'
import { Stage } from './stage.ts'

let stage: Stage
beforeAll(async () => {
  stage = await Stage.open()
})
afterAll(() => stage[Symbol.asyncDispose]())

/** The same type, run by a worker of this process. */
const hold = defineJob({ type: 'process.hold', run: (_, { token }) => ({ token }) })
const echo = defineJob({ type: 'process.echo', run: (payload) => payload })

it('a killed worker: all 100 jobs it held run elsewhere within ttl + 2 s, each under a new token', async () => {
  const { engine, log, database } = stage
  const ttl = 3_000
  await using dead = await WorkerProcess.start(database.url, {
    name: 'killed',
    ttl,
    concurrency: 100,
  })
  const ids = await engine.enqueueBatch(hold, Array(100).fill({}))
  await dead.until(() => dead.count('started') === 100)
  await using _ = await stage.work([hold], { name: 'heir', ttl, concurrency: 100 })
  const killed = performance.now()
  dead.kill('SIGKILL')
  await Promise.all(ids.map((id) => log.ended(id)))
  expect(performance.now() - killed).toBeLessThan(ttl + 2_000)
  const jobs = await engine.jobs({ type: hold.type, status: 'completed' }, { max: 200 })
  expect(jobs).toHaveLength(100)
  expect(new Set(jobs.map(({ result }) => (result as { token: number }).token))).toEqual(
    new Set([2]),
  )
  const [, first] = await engine.attempts(ids[0] as number)
  expect(first).toMatchObject({ outcome: 'lease_expired', worker: 'killed', attempt: 1 })
  expect(await sql.checkInvariants(database.db)).toEqual([])
})

it('a worker stopped past its ttl and continued: its writes are refused, its handlers aborted', async () => {
  const { engine, log, database } = stage
  await using frozen = await WorkerProcess.start(database.url, {
    name: 'frozen',
    ttl: '2s',
    concurrency: 5,
  })
  const ids = await engine.enqueueBatch(hold, Array(5).fill({}))
  await frozen.until(() => frozen.count('started') === 5)
  frozen.kill('SIGSTOP')
  await using _ = await stage.work([hold], { name: 'heir of the frozen', ttl: '2s' })
  await Promise.all(ids.map((id) => log.ended(id)))
  const { workerId } = frozen
  await refused(sql.heartbeat(database.db, { worker: 'frozen', worker_id: workerId }), 'JE010')
  await refused(
    sql.exchange(database.db, { worker_id: workerId, types: [hold.type], max: 1 }),
    'JE010',
  )

  frozen.kill('SIGCONT')
  await frozen.until(() => frozen.count('aborted') === 5)
  for (const { why, codes } of frozen.said.filter(({ event }) => event === 'aborted')) {
    expect(why).toBe('lease_lost')
    expect(codes).toEqual(['JE001', 'JE001', 'JE001'])
  }
  const jobs = await Promise.all(ids.map((id) => engine.job(id)))
  expect(jobs.map((job) => job?.result)).toEqual(Array(5).fill({ token: 2 }))
  await expect
    .poll(
      async () =>
        (await engine.workers()).filter(
          ({ name, status }) => name === 'frozen' && status === 'active',
        ).length,
    )
    .toBe(1)
})

it('a handler that blocks the event loop for more than three ttls keeps its lease, and is named', async () => {
  const { engine, log, database } = stage
  const block = defineJob({ type: 'process.block', run: () => 'elsewhere' })
  await using blocked = await WorkerProcess.start(database.url, { name: 'blocked', ttl: '2s' })
  const id = await engine.enqueue(block, { ms: 7_000 })
  await blocked.until(() => blocked.count('blocking') === 1)
  await using _ = await stage.work([block], { name: 'vulture', ttl: '2s' })
  await blocked.until(() =>
    /the event loop is blocked, probably by process\.block/.test(blocked.stderr),
  )
  await blocked.until(() => blocked.lines.some(({ job }) => job === id))
  expect(await engine.job(id)).toMatchObject({
    status: 'completed',
    attempts: 1,
    result: { token: 1 },
  })
  await blocked.until(() => blocked.lines.some(({ types }) => String(types) === 'process.block'))
  expect(log.attempts.filter(({ job }) => job === id)).toEqual([])
})

it('SIGTERM lets handlers finish and leaves nothing behind', async () => {
  const { engine, database } = stage
  await using process = await WorkerProcess.start(database.url, { name: 'service', concurrency: 5 })
  const ids = await engine.enqueueBatch(hold, Array(5).fill({}))
  await process.until(() => process.count('started') === 5)
  process.kill('SIGTERM')
  // a signal and a message may arrive in either order: the go must not be heard first
  await process.says('stopping')
  const waiting = await engine.enqueue(hold, {})
  process.go()
  expect(await process.exit()).toBe(0)
  const jobs = await Promise.all(ids.map((id) => engine.job(id)))
  expect(jobs.map((job) => [job?.status, job?.result])).toEqual(
    Array(5).fill(['completed', 'held']),
  )
  expect(await engine.job(waiting)).toMatchObject({ attempts: 0 })
  await engine.cancel(waiting)
  const lines = process.lines.filter(({ outcome }) => outcome !== undefined)
  expect(lines).toHaveLength(5)
  for (const line of lines) {
    expect(line).toMatchObject({
      level: 30,
      time: expect.any(Number),
      msg: 'process.hold completed',
      job: expect.any(Number),
      type: 'process.hold',
      attempt: 1,
      worker: 'service',
      outcome: 'completed',
      duration_ms: expect.any(Number),
    })
  }
  expect(lines.map(({ job }) => job).sort()).toEqual([...ids].sort())
})

it('a worker whose clock is wrong by a day changes nothing', async () => {
  const { engine, database } = stage
  const day = 86_400_000
  await using wrong = await WorkerProcess.start(
    database.url,
    { name: 'wrong clock', ttl: '2s' },
    day,
  )
  const soon = await engine.enqueue(echo, 'soon', { delay: '500ms', timeout: '10s' })
  const later = await engine.enqueue(echo, 'later', { delay: '1h' })
  await wrong.until(() => wrong.lines.some(({ job }) => job === soon))
  const [attempt] = await engine.attempts(soon)
  const job = await engine.job(soon)
  expect(attempt).toMatchObject({ outcome: 'completed' })
  const waited = (attempt?.startedAt.getTime() ?? 0) - (job?.createdAt.getTime() ?? 0)
  expect(waited).toBeGreaterThanOrEqual(500)
  expect(waited).toBeLessThan(60_000)
  expect(await engine.job(later)).toMatchObject({ status: 'pending', attempts: 0 })
})
