import { describe, expect, expectTypeOf, it } from 'vitest'
import { z } from 'zod'
import { durationFrom, interval, milliseconds } from '../../src/definitions/duration.ts'
import { storedSettings } from '../../src/definitions/settings.ts'
import { defineJob, type Fencepost, type JobDefinition, type Schema } from '../../src/index.ts'
import { nearest } from '../../src/options.ts'
import { refused } from '../support/sql.ts'

describe('a duration', () => {
  it.each([
    [250, 250],
    ['500ms', 500],
    ['2s', 2_000],
    ['1.5h', 5_400_000],
    ['1h 30m', 5_400_000],
    ['1h30min', 5_400_000],
    ['7d', 604_800_000],
    [' 1 w ', 604_800_000],
    [0, 0],
  ])('%j is %d ms', (text, ms) => {
    expect(milliseconds(text)).toBe(ms)
    expect(interval(text)).toBe(`${ms} milliseconds`)
  })

  it.each([
    '',
    'soon',
    '5',
    '5 parsecs',
    '-2s',
    -1,
    Number.NaN,
    Number.POSITIVE_INFINITY,
    '1h,30m',
    null,
  ])('%j is none', async (value) => {
    await refused((async () => milliseconds(value as never))(), 'JE003')
  })

  it('has bounds', () => {
    expect(durationFrom(1_000)('500ms')).toBe('must be at least 1000 ms')
    expect(durationFrom(0, 1_000)('2s')).toBe('must be at most 1000 ms')
  })
})

describe('defineJob', () => {
  it('keeps settings for the database, by its names', () => {
    const { settings } = defineJob({
      type: 'x',
      retry: { maxAttempts: 3, baseDelay: '5s', maxDelay: '1h', factor: 3, jitter: 0 },
      timeout: '30s',
      maxRunning: 4,
      publishStarted: true,
    })
    expect(storedSettings(settings)).toEqual({
      max_attempts: 3,
      backoff_base: '5000 milliseconds',
      backoff_factor: 3,
      backoff_cap: '3600000 milliseconds',
      backoff_jitter: 0,
      timeout: '30000 milliseconds',
      max_running: 4,
      publish_started: true,
    })
  })

  it.each<[string, object, RegExp, RegExp]>([
    ['no type', {}, /type is missing/, /email\.send/],
    ['a malformed type', { type: 'a b' }, /type must be a name/, /./],
    ['an unknown option', { type: 'x', rety: {} }, /rety is not an option/, /Did you mean retry\?/],
    [
      'an unknown retry',
      { type: 'x', retry: { maxAttempt: 1 } },
      /retry: maxAttempt is not/,
      /maxAttempts\?/,
    ],
    ['no attempts', { type: 'x', retry: { maxAttempts: 0 } }, /maxAttempts must be/, /./],
    [
      'a jitter beyond 1',
      { type: 'x', retry: { jitter: 2 } },
      /jitter must be a number from 0 to 1/,
      /./,
    ],
    ['a wrong timeout', { type: 'x', timeout: 'never' }, /timeout must be/, /./],
    ['a handler that is none', { type: 'x', run: 1 }, /run must be a function/, /./],
    ['a schema that is none', { type: 'x', payload: {} }, /payload must be a schema/, /./],
  ])('refuses %s', async (_, options, message, hint) => {
    const refusal = await refused((async () => defineJob(options as never))(), 'JE003')
    expect(refusal.message).toMatch(message)
    expect(refusal.hint).toMatch(hint)
  })

  it('takes any library that follows Standard Schema, also one that answers later', async () => {
    const later: Schema<string, number> = {
      '~standard': {
        version: 1,
        vendor: 'test',
        validate: async (value) =>
          typeof value === 'string'
            ? { value: value.length }
            : { issues: [{ message: 'no text', path: ['deep', { key: 0 }] }] },
      },
    }
    const job = defineJob({ type: 'later', payload: later })
    expect(await job.parse('four')).toBe(4)
    const { message } = await refused((async () => job.parse(4))(), 'JE006')
    expect(message).toBe('the payload for later is invalid: deep.0: no text')
  })

  it('types the enqueue and the handler', () => {
    const job = defineJob({
      type: 'typed',
      payload: z.object({ at: z.coerce.date(), note: z.string().default('') }),
      run: (payload) => {
        expectTypeOf(payload).toEqualTypeOf<{ at: Date; note: string }>()
        return { ok: true }
      },
    })
    expectTypeOf(job.type).toEqualTypeOf<'typed'>()
    expectTypeOf(job.parse).returns.toEqualTypeOf<
      { at: Date; note: string } | Promise<{ at: Date; note: string }>
    >()
    expectTypeOf(job).toExtend<JobDefinition>()
    const check = (engine: Fencepost) => {
      void engine.enqueue(job, { at: '2026-01-01', note: 'x' })
      // @ts-expect-error: note is a text
      void engine.enqueue(job, { at: '2026-01-01', note: 1 })
      // @ts-expect-error: a definition wants its payload
      void engine.enqueue(job)
    }
    expectTypeOf(check).toBeFunction()
  })
})

it.each([
  ['idempotencykey', 'idempotencyKey'],
  ['max_attempts', 'maxAttempts'],
  ['prioirty', 'priority'],
  ['xyz', undefined],
])('%s is near %s', (word, meant) => {
  expect(nearest(word, ['priority', 'delay', 'runAt', 'idempotencyKey', 'maxAttempts'])).toBe(meant)
})
