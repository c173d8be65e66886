import fc from 'fast-check'
import { expect } from 'vitest'
import { moveClock } from '../support/clock.ts'
import * as engine from '../support/engine.ts'
import { one, refused } from '../support/sql.ts'
import type { Model } from './model.ts'
import type { EnqueueOptions, Job } from './state.ts'
import { type Real, Step } from './step.ts'

const typeOf = (real: Real, type: string) => `${real.run}.${type}`
const nth = (model: Model, n: number): Job => [...model.jobs.values()][n % model.jobs.size] as Job
/** Mostly one that runs, if any does. */
function running(model: Model, n: number): Job {
  const held = [...model.jobs.values()].filter((each) => each.place === 'lease')
  return n % 8 === 0 || held.length === 0 ? nth(model, n) : (held[n % held.length] as Job)
}

/** A call of (job, token), which the model either refuses or answers. */
async function fenced(
  model: Model,
  job: Job,
  token: number,
  call: () => Promise<unknown>,
  expected: () => unknown,
): Promise<void> {
  await answered(call(), model.stale(job, token) ?? expected())
}

function isCode(value: unknown): value is string {
  return typeof value === 'string' && /^JE\d{3}$/.test(value)
}

/** A call that the model refuses with a code or answers with a value (undefined: nothing, as SQL says void). */
async function answered(call: Promise<unknown>, expected: unknown): Promise<void> {
  if (isCode(expected)) await refused(call, expected)
  else expect(await call).toEqual(expected ?? '')
}

const job = fc.nat(1000)
const type = fc.constantFrom('a', 'b')
const worker = fc.constantFrom('w1', 'w2')
const priority = fc.constantFrom(2, 5, 8)
const isStale = fc.integer({ min: 0, max: 4 }).map((n) => n === 0)

function enqueue(options: fc.Arbitrary<[string, number, EnqueueOptions]>): fc.Arbitrary<Step> {
  return options.map(
    ([type, priority, given]) =>
      new Step(
        `enqueue(${type}, ${priority}, ${JSON.stringify(given)})`,
        async (model, real) => {
          const call = engine.enqueue(real.db, typeOf(real, type), {
            priority,
            payload: given.payload ?? 0,
            ...(given.delay ? { delay: `${given.delay} s` } : {}),
            ...(given.maxAttempts ? { max_attempts: given.maxAttempts } : {}),
            ...(given.timeout ? { timeout: `${given.timeout} s` } : {}),
            ...(given.key ? { idempotency_key: given.key } : {}),
          })
          const known = given.key && model.keyed(type, given.key, given.payload ?? 0)
          if (known === 'JE005') await refused(call, known)
          else if (known) expect(await call).toBe(known)
          else model.enqueued(await call, type, priority, given)
        },
        false,
      ),
  )
}

const few = fc.constantFrom(1, 1, 2, 3, 5)

export const commands: fc.Arbitrary<fc.AsyncCommand<Model, Real>>[] = [
  enqueue(
    fc.tuple(
      type,
      priority,
      fc.record({
        delay: fc.constantFrom(undefined, undefined, undefined, 1, 20, 3600),
        maxAttempts: fc.constantFrom(undefined, 1, 2),
        timeout: fc.constantFrom(undefined, undefined, 15),
        key: fc.constantFrom(undefined, undefined, undefined, 'k1', 'k2'),
        payload: fc.constantFrom(0, 0, 0, 1),
      }),
    ),
  ),
  fc.tuple(type, few).map(
    ([type, count]) =>
      new Step(
        `enqueue_batch(${type}, ${count})`,
        async (model, real) => {
          const ids = await engine.enqueueBatch(real.db, typeOf(real, type), count)
          for (const id of ids) model.enqueued(id, type, 5, {})
        },
        false,
      ),
  ),
  ...[1, 2, 3].map(() =>
    fc.tuple(type, worker, few).map(
      ([type, worker, max]) =>
        new Step(
          `claim(${type}, ${worker}, ${max})`,
          async (model, real) => {
            const expected = model.claim(type, worker, max)
            const jobs = await engine.claim(
              real.db,
              typeOf(real, type),
              max,
              `${real.run}.${worker}`,
            )
            expect(jobs.map((each) => each.job_id)).toEqual(expected)
          },
          false,
        ),
    ),
  ),
  fc.tuple(job, isStale).map(
    ([n, isStale]) =>
      new Step(`complete(${n}${isStale ? ', stale' : ''})`, async (model, { db }) => {
        const each = running(model, n)
        const token = each.token - (isStale ? 1 : 0)
        const call = () => one(db, 'select fencepost.complete($1, $2)', [each.id, token])
        await fenced(model, each, token, call, () => {
          model.complete(each)
          return ''
        })
      }),
  ),
  fc.tuple(job, isStale, fc.constantFrom(undefined, undefined, 0, 30), isStale).map(
    ([n, isStale, wait, isPermanent]) =>
      new Step(`fail(${n}, ${wait}, ${isPermanent})`, async (model, { db }) => {
        const each = running(model, n)
        const token = each.token - (isStale ? 1 : 0)
        const call = () =>
          one(db, 'select fencepost.fail($1, $2, $3, $4, $5)', [
            each.id,
            token,
            'no luck',
            wait === undefined ? null : `${wait} s`,
            isPermanent,
          ])
        await fenced(model, each, token, call, () => model.fail(each, wait, isPermanent))
      }),
  ),
  fc.tuple(job, isStale).map(
    ([n, isStale]) =>
      new Step(`release(${n})`, async (model, { db }) => {
        const each = running(model, n)
        const token = each.token - (isStale ? 1 : 0)
        const call = () => one(db, 'select fencepost.release($1, $2)', [each.id, token])
        await fenced(model, each, token, call, () => {
          model.release(each)
          return ''
        })
      }),
  ),
  fc.tuple(job, fc.constantFrom(undefined, 10, 100)).map(
    ([n, delay]) =>
      new Step(`suspend(${n}, ${delay})`, async (model, { db }) => {
        const each = running(model, n)
        const call = () =>
          one(db, 'select fencepost.suspend($1, $2, delay => $3)', [
            each.id,
            each.token,
            delay === undefined ? null : `${delay} s`,
          ])
        await fenced(model, each, each.token, call, () => model.suspend(each, delay) ?? '')
      }),
  ),
  ...(['resume', 'cancel', 'replay', 'discard'] as const).map((name) =>
    job.map(
      (n) =>
        new Step(`${name}(${n})`, async (model, { db }) => {
          const each = nth(model, n)
          await answered(one(db, `select fencepost.${name}($1)`, [each.id]), model[name](each))
        }),
    ),
  ),
  fc.tuple(job, priority).map(
    ([n, priority]) =>
      new Step(`reprioritize(${n}, ${priority})`, async (model, { db }) => {
        const each = nth(model, n)
        const call = one(db, 'select fencepost.reprioritize($1, $2)', [each.id, priority])
        await answered(call, model.reprioritize(each, priority))
      }),
  ),
  fc.tuple(worker, fc.boolean()).map(
    ([name, isTelling]) =>
      new Step(
        `heartbeat(${name}, ${isTelling ? 'its jobs' : 'nothing'})`,
        async (model, { db, run }) => {
          const held = [...model.jobs.values()].filter((each) => each.place === 'lease')
          const named = isTelling ? held.filter((each) => each.worker?.name === name) : []
          const call = db.query<{ job_id: number; directive: string }>(
            'select * from fencepost.heartbeat($1, $2, $3)',
            [`${run}.${name}`, named.map((each) => each.id), named.map((each) => each.token)],
          )
          const expected = model.heartbeat(name, named)
          if (expected === 'JE010') await refused(call, expected)
          else
            expect(new Map((await call).map((row) => [row.job_id, row.directive]))).toEqual(
              expected,
            )
        },
      ),
  ),
  worker.map(
    (name) =>
      new Step(
        `register(${name})`,
        async (model, { db, run }) => {
          await one(db, `select fencepost.register_worker($1)`, [`${run}.${name}`])
          model.register(name)
        },
        false,
      ),
  ),
  fc.tuple(type, fc.boolean()).map(
    ([type, isPaused]) =>
      new Step(
        `${isPaused ? 'pause' : 'unpause'}(${type})`,
        async (model, real) => {
          await engine.settings(real.db, typeOf(real, type), { paused: isPaused })
          if (isPaused) model.paused.add(type)
          else model.paused.delete(type)
        },
        false,
      ),
  ),
  fc.tuple(type, fc.constantFrom(undefined, 1, 3)).map(
    ([type, limit]) =>
      new Step(
        `limit(${type}, ${limit})`,
        async (model, real) => {
          await engine.settings(real.db, typeOf(real, type), { max_running: limit ?? null })
          if (limit === undefined) model.limits.delete(type)
          else model.limits.set(type, limit)
        },
        false,
      ),
  ),
  ...[1, 2].map(() =>
    fc.constantFrom(1, 3, 10, 16, 16, 40, 100, 4000).map(
      (seconds) =>
        new Step(`wait(${seconds} s)`, async (model, { db }) => {
          await moveClock(db, `${seconds} s`)
          model.now += seconds
        }),
    ),
  ),
  ...[1, 2].map(() =>
    fc.constant(
      new Step('maintain()', async (model, { db }) => {
        await engine.maintain(db)
        model.maintain()
      }),
    ),
  ),
]
