import { afterEach, describe, expect, it } from 'vitest'
import { json } from '../../src/database/database.ts'
import { moveClock, restoreClock } from '../support/clock.ts'
import { complete, freshType, maintain } from '../support/engine.ts'
import { begin, expectSound, publish, publishRaw, start } from '../support/runs.ts'
import { ownDatabase } from '../support/server.ts'
import { one, refused } from '../support/sql.ts'

const database = ownDatabase()
const db = () => database.db
afterEach(() => restoreClock(db()))
afterEach(() => expectSound(db()))

const problem = (schema: unknown, value: unknown) =>
  one<string | null>(db(), `select fencepost_private.schema_problem($1, $2, 'input')`, [
    json(schema),
    json(value),
  ])

/** One of two that are one of two that are …: each level doubles what there is to check. */
function doubling(levels: number): Record<string, unknown> {
  const $defs: Record<string, unknown> = { [`d${levels}`]: { type: 'string' } }
  for (let level = 0; level < levels; level++) {
    const next = { $ref: `#/$defs/d${level + 1}` }
    $defs[`d${level}`] = { oneOf: [next, next] }
  }
  return { $ref: '#/$defs/d0', $defs }
}

const repeat = <T>(times: number, first: T, wrap: (inner: T) => T): T =>
  times === 0 ? first : repeat(times - 1, wrap(first), wrap)

const deep = (levels: number) => repeat<unknown>(levels, 1, (inner) => [inner])
const endless = doubling(25)
const TOO_LONG = 'the input takes too long to check against its schema'

describe('an input', () => {
  it('that takes too long to check is refused, and the run is not started or migrated', async () => {
    const workflow = await publish(db(), { a: {} }, { input: endless })
    expect(await refused(start(db(), workflow), 'JE003')).toMatchObject({
      message: TOO_LONG,
      detail: 'at input',
    })
    const run = await begin(db(), { a: {} })
    const version = await publishRaw(db(), run.workflow, {
      input: endless,
      tasks: { a: { type: 't' } },
    })
    const migrated = one(db(), 'select fencepost.migrate_run($1, $2)', [run.id, version])
    expect(await refused(migrated, 'JE003')).toMatchObject({ message: TOO_LONG })
  })

  it('that is long may take longer', async () => {
    const many = Array.from({ length: 100_000 }, (_, index) => index)
    expect(await problem({ items: { type: 'integer' } }, many)).toBeNull()
  })

  it.each([
    ['not', { not: { $ref: '#/$defs/list' } }],
    ['if', { if: { $ref: '#/$defs/list' } }],
    ['anyOf', { anyOf: [{ $ref: '#/$defs/list' }, true] }],
    ['oneOf', { oneOf: [{ $ref: '#/$defs/list' }, true] }],
    ['contains', { contains: { $ref: '#/$defs/list' }, minContains: 0 }],
  ])('that goes too deep does not fit by way of %s', async (_, schema) => {
    const $defs = { list: { items: { $ref: '#/$defs/list' } } }
    const { message } = await refused(problem({ ...schema, $defs }, deep(200)), 'JE003')
    expect(message).toContain('more than 100 levels deep')
  })

  it('that is too deep for the stack is refused like any other', async () => {
    const refusal = db().transaction(async (tx) => {
      await tx.query(`set local max_stack_depth = '100kB'`)
      await tx.query(
        `select fencepost_private.schema_problem('{"items": {"$ref": "#"}}', $1, 'x')`,
        [json(deep(45))],
      )
    })
    expect(await refused(refusal, 'JE003')).toMatchObject({
      message: 'the input cannot be checked against its schema',
      detail: 'stack depth limit exceeded',
    })
  })

  it('whose alternatives are told apart by a constant takes no longer at each level', async () => {
    const operator = (type: string) => ({
      type: 'object',
      required: ['type', 'args'],
      properties: { type: { const: type }, args: { items: { $ref: '#/$defs/term' } } },
    })
    const term = { oneOf: [{ type: 'number' }, ...['and', 'or', 'not'].map(operator)] }
    const schema = { $ref: '#/$defs/term', $defs: { term } }
    const not = (inner: unknown) => ({ type: 'not', args: [inner] })
    expect(await problem(schema, repeat<unknown>(20, 1, not))).toBeNull()
    expect(await problem(schema, repeat<unknown>(20, 'x', not))).toContain('args[0]')
  })

  it('is looked at no further once it fits one of anyOf', async () => {
    const list = { items: { $ref: '#' } }
    expect(await problem({ anyOf: [list, list] }, deep(30))).toBeNull()
  })
})

describe('a child run whose input cannot be checked fails its task, and stops nobody', () => {
  const failed = { status: 'failed', error: `JE003: ${TOO_LONG}`, child_run_id: null }

  it('that completes the task before', async () => {
    const workflow = await publish(db(), { a: {} }, { input: endless })
    const run = await begin(db(), { a: {}, call: { kind: 'workflow', workflow, after: ['a'] } })
    await complete(db(), await run.claim('a'))
    expect(await run.task('call')).toMatchObject(failed)
  })

  it('that maintains, also what else is due', async () => {
    const workflow = await publish(db(), { a: {} }, { input: endless })
    const wait = { kind: 'timer', delay: '1 hour' }
    const run = await begin(db(), { wait, call: { kind: 'workflow', workflow, after: ['wait'] } })
    const other = await begin(db(), { wait })
    await moveClock(db(), '2 hours')
    await maintain(db())
    expect(await run.task('call')).toMatchObject(failed)
    expect(await other.status()).toBe('completed')
  })
})

describe('a schema', () => {
  it.each([
    ['$ref', { $ref: '#' }],
    ['anyOf', { anyOf: [{ $ref: '#' }, { $ref: '#' }] }],
    ['allOf, not and if', { allOf: [{ not: { if: { $ref: '#' } } }] }],
    ['dependentSchemas', { dependentSchemas: { a: { oneOf: [true, { $ref: '#' }] } } }],
    [
      'others',
      { $defs: { a: { $ref: '#/$defs/b~1c' }, 'b/c': { anyOf: [{ $ref: '#/$defs/a' }] } } },
    ],
    ['a longer way than is followed', repeatedly(101)],
  ])('that leads to itself at the same place by way of %s is refused', async (_, schema) => {
    expect(await unpublished(schema)).toMatchObject({
      message: 'a JSON Schema must not lead back to itself at the same place',
      detail: expect.stringMatching(/^at input: received \{"\$ref": "#/),
    })
  })

  it('may lead to itself from inside a value, and far', async () => {
    const inside = { properties: { a: { $ref: '#' } }, items: { $ref: '#' } }
    await publish(db(), { a: {} }, { input: { anyOf: [inside, { contains: { $ref: '#' } }] } })
    await publish(db(), { a: {} }, { input: repeatedly(99) })
  })

  it('has its $id at its root, where references begin', async () => {
    const $id = 'https://example.org/a'
    await publish(db(), { a: {} }, { input: { $id, properties: { $id: true } } })
    const { detail } = await unpublished({ properties: { a: { $id } } })
    expect(detail).toBe(`at input.properties.a.$id: received ${$id}`)
  })

  it('is nested at most 100 deep', async () => {
    const nested = (levels: number) =>
      repeat<Record<string, unknown>>(levels, {}, (inner) => ({ items: inner }))
    await publish(db(), { a: {} }, { input: nested(100) })
    for (const levels of [101, 1500]) {
      expect(await unpublished(nested(levels))).toMatchObject({
        message: 'a JSON Schema may be nested at most 100 deep',
        detail: expect.stringContaining(`at input${'.items'.repeat(101)}: received {`),
      })
    }
  })

  const unpublished = (input: unknown) =>
    refused(publishRaw(db(), freshType('flow'), { input, tasks: { a: { type: 't' } } }), 'JE008')
})

/** References that are followed one after the other, and lead nowhere else. */
function repeatedly(times: number): Record<string, unknown> {
  const $defs: Record<string, unknown> = { [`d${times}`]: true }
  for (let n = 0; n < times; n++) $defs[`d${n}`] = { $ref: `#/$defs/d${n + 1}` }
  return { $ref: '#/$defs/d0', $defs }
}
