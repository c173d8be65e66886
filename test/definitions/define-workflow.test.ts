import { describe, expect, expectTypeOf, it } from 'vitest'
import { z } from 'zod'
import { getWorkflowVersion, publishWorkflow, startRun } from '../../src/database/engine.ts'
import { defineJob } from '../../src/definitions/define-job.ts'
import { defineWorkflow, type RunOutput } from '../../src/definitions/define-workflow.ts'
import type { Decision } from '../../src/definitions/workflow-tasks.ts'
import { ownDatabase } from '../support/server.ts'
import { refused } from '../support/sql.ts'

const reserve = defineJob({
  type: 'inventory.reserve',
  payload: z.object({ sku: z.string() }),
  run: async () => ({ parcels: [1, 2] }),
})
const ship = defineJob({ type: 'shipment.create', run: () => 'a tracking number' })
const invoicing = defineWorkflow('invoicing').task('write', { type: ship })

const order = defineWorkflow('order', {
  input: z.object({ id: z.int(), amount: z.number().positive() }),
  onFailure: 'compensate',
  description: 'From the shop to the door.',
})
  .task('validate', { type: 'order.validate', description: 'Is it one?' })
  .task('reserve', { type: reserve, after: ['validate'], compensate: 'inventory.release' })
  .task('charge', {
    type: 'payment.charge',
    after: ['reserve'],
    input: { order: '$.input.id', price: '$$5' },
    retry: { maxAttempts: 5 },
    timeout: '30s',
    priority: 8,
    onFailure: 'continue',
    compensate: defineJob({ type: 'payment.refund' }),
  })
  .approval('review', {
    after: ['charge'],
    when: '$.input.amount > 1000',
    reason: 'A large order',
    expiresAfter: '3d',
    onExpiry: 'reject',
    onReject: 'fail',
  })
  .timer('settle', { after: ['review'], delay: '1h' })
  .timer('due', { until: '$.input.due' })
  .signal('paid', { after: ['charge'], signal: 'payment.settled', expiresAfter: '90s' })
  .map('parcels', {
    type: ship,
    after: ['review'],
    over: '$.tasks.reserve.parcels',
    maxParallel: 8,
  })
  .workflow('invoice', {
    workflow: invoicing,
    version: 1,
    after: ['parcels'],
    input: { order: '$.input.id' },
  })

/** The same, as SQL knows it. */
const compiled = {
  description: 'From the shop to the door.',
  input: {
    type: 'object',
    properties: {
      id: { type: 'integer', minimum: -9007199254740991, maximum: 9007199254740991 },
      amount: { type: 'number', exclusiveMinimum: 0 },
    },
    required: ['id', 'amount'],
  },
  on_failure: 'compensate',
  tasks: {
    validate: { type: 'order.validate', description: 'Is it one?' },
    reserve: { type: 'inventory.reserve', after: ['validate'], compensate: 'inventory.release' },
    charge: {
      type: 'payment.charge',
      after: ['reserve'],
      input: { order: '$.input.id', price: '$$5' },
      retry: { max_attempts: 5 },
      timeout: '30000 milliseconds',
      priority: 8,
      on_failure: 'continue',
      compensate: 'payment.refund',
    },
    review: {
      kind: 'approval',
      after: ['charge'],
      when: '$.input.amount > 1000',
      reason: 'A large order',
      expires_after: '259200000 milliseconds',
      on_expiry: 'reject',
      on_reject: 'fail',
    },
    settle: { kind: 'timer', after: ['review'], delay: '3600000 milliseconds' },
    due: { kind: 'timer', until: '$.input.due' },
    paid: {
      kind: 'signal',
      signal: 'payment.settled',
      after: ['charge'],
      expires_after: '90000 milliseconds',
    },
    parcels: {
      kind: 'map',
      type: 'shipment.create',
      after: ['review'],
      over: '$.tasks.reserve.parcels',
      max_parallel: 8,
    },
    invoice: {
      kind: 'workflow',
      workflow: 'invoicing',
      version: 1,
      after: ['parcels'],
      input: { order: '$.input.id' },
    },
  },
}

describe('a definition', () => {
  it('compiles to the JSON of the database', () => {
    expect(JSON.parse(JSON.stringify(order))).toEqual(compiled)
  })

  it('stays as it is when a task is added to it', () => {
    const one = defineWorkflow('one').task('a', { type: 'a' })
    one.task('b', { type: 'b', after: ['a'] })
    expect(one.toJSON()).toEqual({ tasks: { a: { type: 'a' } } })
  })

  it('types what it takes and returns', () => {
    type Types = NonNullable<(typeof order)['~types']>
    expectTypeOf<Types['input']>().toEqualTypeOf<{ id: number; amount: number }>()
    expectTypeOf<Types['tasks']['reserve']>().toEqualTypeOf<{ parcels: number[] }>()
    expectTypeOf<Types['tasks']['parcels']>().toEqualTypeOf<string[]>()
    expectTypeOf<Types['tasks']['review']>().toEqualTypeOf<Decision>()
    expectTypeOf<Types['tasks']['charge']>().toBeUnknown()
    expectTypeOf<Types['last']>().toEqualTypeOf<'settle' | 'due' | 'paid' | 'invoice'>()
    expectTypeOf<RunOutput<typeof order>['invoice']>().toEqualTypeOf<
      { write?: string } | undefined
    >()
    expectTypeOf<keyof RunOutput<typeof order>>().toEqualTypeOf<Types['last']>()
  })

  it('can only wait for tasks that exist', () => {
    const one = defineWorkflow('one').task('a', { type: 'a' })
    // @ts-expect-error: there is no task b
    expect(() => one.task('c', { type: 'c', after: ['b'] })).toThrow(/waits for b/)
    // @ts-expect-error: a task cannot wait for itself
    expect(() => one.task('c', { type: 'c', after: ['c'] })).toThrow(/waits for c/)
    // @ts-expect-error: a timer has one of both
    one.timer('t', { delay: '1h', until: '$.input.at' })
  })

  it.each([
    [
      'an unknown option',
      () => defineWorkflow('w', { onFail: 'x' } as never),
      /onFail.*onFailure/s,
    ],
    ['an unknown choice', () => defineWorkflow('w', { onFailure: 'undo' as never }), /onFailure/],
    ['no schema', () => defineWorkflow('w', { input: {} as never }), /input must be a schema/],
    ['a task twice', () => invoicing.task('write', { type: 'x' }), /task write: there is a task/],
    [
      'an option of another kind',
      () => invoicing.approval('a', { signal: 'x' } as never),
      /invoicing, task a: signal is not an option/,
    ],
    ['no type', () => invoicing.task('a', { type: 7 as never }), /type must be a definition/],
    ['a delay of nothing', () => invoicing.timer('a', { delay: 0 }), /delay must be at least/],
    ['other retries', () => invoicing.task('a', { type: 'a', retry: {} as never }), /maxAttempts/],
    ['a priority of 10', () => invoicing.task('a', { type: 'a', priority: 10 }), /priority/],
  ])('refuses %s', (_, define, message) => {
    const error = catching(define)
    expect(error).toMatchObject({ code: 'JE003' })
    expect(`${error.message} ${error.hint}`).toMatch(message)
  })

  it('checks inputs', async () => {
    const input = { id: 1, amount: 5 }
    expect(await order.parse(input)).toBe(input)
    const { detail } = await refused(order.parse({ id: 1, amount: -5 }), 'JE003')
    expect(detail).toBe('at input.amount')
    expect(await invoicing.parse('anything')).toBe('anything')
  })
})

describe('the database', () => {
  const database = ownDatabase()

  it('takes a definition and keeps it as it is', async () => {
    const { db } = database
    expect(await publishWorkflow(db, order.name, order)).toBe(1)
    expect(await publishWorkflow(db, order.name, compiled)).toBe(1)
    expect((await getWorkflowVersion(db, 'order'))?.definition).toEqual(compiled)
  })

  it('checks inputs by the schema of the definition', async () => {
    const run = { workflow: 'order', input: { id: 1, amount: 0 } }
    const { detail } = await refused(startRun(database.db, run), 'JE003')
    expect(detail).toMatch(/input.amount/)
    expect(await startRun(database.db, { ...run, input: { id: 1, amount: 5 } })).toBeGreaterThan(0)
  })

  it('does not read regular expressions that mean something else to it', async () => {
    const { db } = database
    const input = z.object({
      word: z.string().regex(/^\p{L}+$/u),
      code: z.string().regex(/^abc$/i),
      sku: z.string().regex(/^[A-Z]\d+$/),
      mail: z.email(),
      pair: z.tuple([z.string(), z.number()]),
    })
    const strict = defineWorkflow('strict', { input }).task('a', { type: 'a' })
    await publishWorkflow(db, strict.name, strict)
    const good = { word: 'été', code: 'ABC', sku: 'A1', mail: 'ada@example.org', pair: ['a', 1] }
    expect(await strict.parse(good)).toBe(good)
    expect(await startRun(db, { workflow: 'strict', input: good })).toBeGreaterThan(0)
    for (const bad of [{ sku: 'a1' }, { mail: 'ada' }, { pair: [1, 'a'] }]) {
      await refused(startRun(db, { workflow: 'strict', input: { ...good, ...bad } }), 'JE003')
    }
  })

  it('refuses what TypeScript lets through', async () => {
    const odd = defineWorkflow('odd').task('a b', { type: 'a' })
    await refused(publishWorkflow(database.db, odd.name, odd), 'JE008')
    const bad = defineWorkflow('bad').task('a', { type: 'a', when: '$.(' })
    const { detail } = await refused(publishWorkflow(database.db, bad.name, bad), 'JE008')
    expect(detail).toMatch(/tasks\.a\.when/)
  })
})

function catching(run: () => unknown): { code: string; message: string; hint?: string } {
  try {
    run()
  } catch (error) {
    return error as never
  }
  throw new Error('it went well')
}
