import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { defineJob, PermanentError, RetryError } from '../../src/index.ts'
import { Stage } from './stage.ts'

let stage: Stage
beforeAll(async () => {
  stage = await Stage.open()
})
afterAll(() => stage[Symbol.asyncDispose]())

/** Runs one job to the end of its first attempt: the job, its line and its latest attempt. */
async function run(handler: () => unknown, options: { readonly maxAttempts?: number } = {}) {
  const { engine, log } = stage
  // it is not tried again before it is looked at
  const job = defineJob({ type: `t${counter++}`, retry: { baseDelay: '1h' }, run: handler })
  await using worker = await stage.work([job])
  const id = await engine.enqueue(job, {}, { maxAttempts: options.maxAttempts ?? 1 })
  const line = await log.ended(id)
  void worker
  const [attempt] = await engine.attempts(id)
  return { id, line, attempt, job: await engine.job(id) }
}
let counter = 0

describe('a handler that returns', () => {
  it('completes its job with the result', async () => {
    const { job, attempt, line } = await run(async () => ({ sent: true, at: new Date(0) }))
    expect(job).toMatchObject({
      status: 'completed',
      attempts: 1,
      result: { sent: true, at: '1970-01-01T00:00:00.000Z' },
    })
    expect(attempt).toMatchObject({ outcome: 'completed', attempt: 1, worker: 'worker' })
    expect(line).toMatchObject({ level: 'info', outcome: 'completed', attempt: 1, token: 1 })
    expect(line.duration_ms).toBeGreaterThanOrEqual(0)
  })

  it('needs no promise and no result', async () => {
    const { job } = await run(() => undefined)
    expect(job).toMatchObject({ status: 'completed', result: null })
  })

  it('may return a large result', async () => {
    const { job } = await run(() => 'x'.repeat(200_000))
    expect(job?.result).toHaveLength(200_000)
  })

  it.each([
    ['a bigint', () => 1n, /BigInt/],
    ['a function', () => () => {}, /not JSON/],
    [
      'a cycle',
      () => {
        const cycle: Record<string, unknown> = {}
        cycle.self = cycle
        return cycle
      },
      /circular/,
    ],
    ['a NUL character', () => ({ text: 'a\0b' }), /NUL/],
    ['half of a surrogate pair', () => '\ud800', /surrogate/],
  ])('fails for good with %s, which cannot be stored', async (_, handler, message) => {
    const { job } = await run(handler, { maxAttempts: 5 })
    expect(job).toMatchObject({ status: 'dead_letter', attempts: 1 })
    expect(job?.lastError).toMatch(message)
  })

  it('fails for good with a result that its type refuses, and harms no other', async () => {
    const { engine, log } = stage
    const bulky = defineJob({
      type: 'bulky',
      payload: z.object({ bytes: z.number() }),
      maxPayloadBytes: 5_000,
      run: ({ bytes }) => 'x'.repeat(bytes),
    })
    const ids = await engine.enqueueBatch(
      bulky,
      [10, 4_000, 6_000, 50_000, 20].map((bytes) => ({ bytes })),
    )
    await using worker = await stage.work([bulky])
    const lines = await Promise.all(ids.map((id) => log.ended(id)))
    void worker
    expect(lines.map(({ outcome }) => outcome)).toEqual([
      'completed',
      'completed',
      'failed',
      'failed',
      'completed',
    ])
    const refused = await engine.job(ids[2] as number)
    expect(refused).toMatchObject({ status: 'dead_letter', attempts: 1 })
    expect(refused?.lastError).toMatch(/result was refused: the result of job \d+ is too large/)
  })
})

describe('a handler that throws', () => {
  it('is tried again after its backoff', async () => {
    const { job, attempt, line } = await run(
      () => {
        throw new TypeError('no such user')
      },
      { maxAttempts: 2 },
    )
    expect(job).toMatchObject({ status: 'pending', attempts: 1, lastError: 'no such user' })
    expect(job?.availableAt?.getTime()).toBeGreaterThan(Date.now())
    expect(line).toMatchObject({
      level: 'warn',
      outcome: 'failed',
      verdict: 'retry',
      error: 'no such user',
    })
    expect(attempt?.details).toMatchObject({
      name: 'TypeError',
      message: 'no such user',
      stack: expect.stringContaining('outcomes.test.ts'),
    })
  })

  it('is dead-lettered when its attempts are used up', async () => {
    const { job, line } = await run(() => Promise.reject(new Error('again')))
    expect(job).toMatchObject({ status: 'dead_letter', lastError: 'again' })
    expect(line).toMatchObject({ level: 'error', verdict: 'dead_letter' })
  })

  it('is not tried again after a PermanentError', async () => {
    const { job } = await run(
      () => {
        throw new PermanentError('address does not exist')
      },
      { maxAttempts: 5 },
    )
    expect(job).toMatchObject({ status: 'dead_letter', attempts: 1 })
  })

  it('says when to try again with a RetryError', async () => {
    const before = Date.now()
    const { job } = await run(
      () => {
        throw new RetryError('rate limited', '1h')
      },
      { maxAttempts: 5 },
    )
    const wait = (job?.availableAt?.getTime() ?? 0) - before
    expect(wait).toBeGreaterThan(3_590_000)
    expect(wait).toBeLessThan(3_630_000)
  })

  const hostile = new Proxy(
    {},
    {
      get() {
        throw new Error('no')
      },
    },
  )
  const cyclic: { message: unknown; cause?: unknown } = { message: { deep: true } }
  cyclic.cause = cyclic
  const circle = new Error('circle')
  circle.cause = circle
  it.each<[string, unknown, RegExp | string]>([
    ['undefined', undefined, 'the handler threw undefined'],
    ['null', null, 'the handler threw null'],
    ['a number', 42, 'the handler threw 42'],
    ['a symbol', Symbol('s'), 'the handler threw Symbol(s)'],
    ['a text', 'just words', 'just words'],
    ['an empty text', '', 'the handler threw an empty text'],
    ['NUL and broken surrogates', new Error('a\0b\ud800c'), 'a␀b\ufffdc'],
    ['a cyclic object', cyclic, /the handler threw an object/],
    ['a cyclic chain of causes', circle, 'circle'],
    ['an object with a message', { message: 'plain' }, 'plain'],
    ['a hostile object', hostile, /cannot be described/],
    [
      '10 MB of text',
      new Error('x'.repeat(10_000_000)),
      /^x{16000} … \(cut from 10000000 characters\)$/,
    ],
    ['an error without a message', new RangeError(), 'RangeError'],
  ])('stores an error also for %s', async (_, thrown, message) => {
    const { job } = await run(() => {
      throw thrown
    })
    expect(job?.status).toBe('dead_letter')
    if (typeof message === 'string') expect(job?.lastError).toBe(message)
    else expect(job?.lastError).toMatch(message)
  })
})

it('stores an error also for a promise, which nobody else looks at', async () => {
  const { job } = await run(() => {
    throw Promise.reject(new Error('later'))
  })
  expect(job).toMatchObject({ status: 'dead_letter', lastError: 'the handler threw a promise' })
})

describe('a payload', () => {
  const typed = defineJob({
    type: 'typed',
    payload: z.object({ to: z.email(), times: z.coerce.number().default(2) }),
    run: ({ to, times }) => `${to} x ${times}`,
  })

  it('reaches the handler as its schema makes it', async () => {
    const { engine, log } = stage
    await using worker = await stage.work([typed])
    void worker
    const id = await engine.enqueue(typed, { to: 'ada@example.org' })
    await log.ended(id)
    expect(await engine.job(id)).toMatchObject({
      result: 'ada@example.org x 2',
      payload: { to: 'ada@example.org' },
    })
  })

  it('that does not fit its schema is dead-lettered at once', async () => {
    const { engine, log } = stage
    await using worker = await stage.work([typed])
    void worker
    const id = await engine.enqueue('typed', { to: 'nobody' })
    const line = await log.ended(id)
    expect(line).toMatchObject({ verdict: 'dead_letter', attempt: 1 })
    expect(await engine.job(id)).toMatchObject({
      status: 'dead_letter',
      lastError: expect.stringMatching(/the payload for typed is invalid: to: Invalid email/),
    })
  })
})

it('writes exactly one line for each attempt, and counts it', async () => {
  const { engine, log } = stage
  const flaky = defineJob({
    type: 'flaky',
    retry: { baseDelay: 0 },
    run: (_, { attempt }) => {
      if (attempt < 3) throw new Error(`attempt ${attempt}`)
    },
  })
  const reports: string[] = []
  await using worker = await stage.work([flaky], {
    onAttempt: ({ outcome, attempt }) => reports.push(`${attempt} ${outcome}`),
  })
  const id = await engine.enqueue(flaky, {})
  await log.ended(id, 'completed')
  const told = log.attempts.filter(({ job }) => job === id)
  expect(told.map(({ attempt, outcome }) => `${attempt} ${outcome}`)).toEqual(reports)
  expect(reports).toEqual(['1 failed', '2 failed', '3 completed'])
  expect(worker.counters).toMatchObject({ claimed: 3, completed: 1, failed: 2, lost: 0 })
})
