import { afterEach, describe, expect, it } from 'vitest'
import { json } from '../../src/database/database.ts'
import { claim } from '../support/engine.ts'
import {
  begin,
  expectSound,
  publish,
  publishRaw,
  Run,
  start,
  type TaskSpec,
} from '../support/runs.ts'
import { ownDatabase } from '../support/server.ts'
import { one, refused } from '../support/sql.ts'

const database = ownDatabase()
const db = () => database.db
afterEach(() => expectSound(db()))

describe('payloads', () => {
  it('without input: the input of the run and the outputs of the direct parents', async () => {
    const run = await begin(
      db(),
      { a: {}, b: { after: ['a'] }, c: { after: ['b'] } },
      { amount: 7 },
    )
    expect((await run.claim('a')).payload).toEqual({ input: { amount: 7 }, tasks: {} })
    await db().query(
      'select fencepost.complete(id, 1, $1) from fencepost_private.lease l where run_id = $2',
      [json([1]), run.id],
    )
    await run.complete('b', null)
    expect((await run.claim('c')).payload).toEqual({ input: { amount: 7 }, tasks: { b: null } })
  })

  it('with a template: paths, literals, what is not there, what is there several times', async () => {
    const run = await begin(
      db(),
      {
        'first-one': {},
        b: {
          after: ['first-one'],
          input: {
            amount: '$.input.amount',
            total: '$.input.amount + 1',
            first: '$.tasks."first-one".x',
            all: '$.input.list[*]',
            alone: '$.input.single[*].id',
            chosen: '$.input.list[*] ? (@ > 1)',
            noneOfMany: '$.input.nothing[*]',
            odd: '$.input."a[*]"',
            one: '$.input.list[0]',
            none: '$.input.nothing',
            dollar: '$$100',
            dollars: '$$$',
            text: 'plain',
            deep: [1, { run: '$.run.id', workflow: '$.run.workflow' }, ['$.input.list']],
            flag: true,
            nil: null,
          },
        },
      },
      { amount: 6, list: [1, 2], single: [{ id: 7 }], 'a[*]': 'plain' },
    )
    await run.complete('first-one', { x: { y: '$.input.amount' } })
    expect((await run.claim('b')).payload).toEqual({
      amount: 6,
      total: 7,
      first: { y: '$.input.amount' },
      all: [1, 2],
      alone: [7],
      chosen: [2],
      noneOfMany: [],
      odd: 'plain',
      one: 1,
      none: null,
      dollar: '$100',
      dollars: '$$',
      text: 'plain',
      deep: [1, { run: run.id, workflow: run.workflow }, [[1, 2]]],
      flag: true,
      nil: null,
    })
  })

  it('may be no object at all', async () => {
    const run = await begin(
      db(),
      { a: { input: '$.input.list' }, b: { input: 7 }, c: { input: null } },
      { list: [1] },
    )
    expect((await run.claim('a')).payload).toEqual([1])
    expect((await run.claim('b')).payload).toBe(7)
    expect((await run.claim('c')).payload).toBeNull()
  })

  it.each([
    [
      'a whole context',
      '$',
      (context: Context) => Object.keys(context).sort(),
      ['errors', 'input', 'run', 'tasks'],
    ],
    ['all outputs', '$.tasks', (context: Context) => context, { a: 1, b: { deep: 2 } }],
    ['a wildcard', '$.tasks.*', (context: Context) => context, [1, { deep: 2 }]],
    ['any depth', '$.**.deep', (context: Context) => context, [2]],
    [
      'a filter over the context',
      '$ ? (@.tasks.a == 1).tasks.b.deep',
      (context: Context) => context,
      [2],
    ],
    ['keyvalue', '$.keyvalue() ? (@.key == "tasks").value.a', (context: Context) => context, [1]],
    ['quoted keys', '$."tasks"."a"', (context: Context) => context, 1],
    ['a comment', '$ /* . */ . /* x */ tasks . a', (context: Context) => context, 1],
    ['an escaped key', String.raw`$."\u0074asks".a`, (context: Context) => context, 1],
    [
      'a name within a literal',
      '$.tasks.a ? (@ == 1 && "$.tasks.b" == "$.tasks.b")',
      (context: Context) => context,
      [1],
    ],
  ])('read %s', async (_, path, look, expected) => {
    const run = await begin(db(), {
      a: {},
      b: {},
      c: { after: ['a', 'b'], input: { found: path } },
    })
    await run.complete('a', 1)
    await run.complete('b', { deep: 2 })
    const { found } = (await run.claim('c')).payload as { found: Context }
    expect(look(found)).toEqual(expected)
  })

  it('see of all outputs those of tasks that come before, whatever else has ended', async () => {
    const run = await begin(db(), {
      first: {},
      a: { after: ['first'] },
      other: {},
      m: { kind: 'map', over: '$.tasks.first', after: ['a'], input: ['$.item', '$.tasks.*'] },
      b: { after: ['a'], input: { all: '$.tasks', one: '$.tasks.first[0]' } },
    })
    await run.complete('other', 'x')
    await run.complete('first', [1])
    await run.complete('a', 2)
    expect((await run.claim('b')).payload).toEqual({ all: { first: [1], a: 2 }, one: 1 })
    expect((await run.claim('m')).payload).toEqual([1, [2, [1]]])
  })

  it('read tasks that came before, not only direct parents, and not those that were skipped', async () => {
    const run = await begin(db(), {
      a: {},
      gone: { after: ['a'], when: 'false == true' },
      b: { after: ['a'] },
      c: { after: ['b', 'gone'], input: { a: '$.tasks.a', gone: '$.tasks.gone' } },
    })
    await run.complete('a', 'x')
    await run.complete('b')
    expect((await run.claim('c')).payload).toEqual({ a: 'x', gone: null })
  })

  it.each<[string, TaskSpec, string]>([
    [
      'a sum of what is no number',
      { input: { x: ['$.input.text + 1'] } },
      '$."input"."text" is "hey"',
    ],
    ['a text as a number', { input: '$.input.text.double()' }, 'double'],
    ['a predicate that is unknown', { input: '$.input.text > 1' }, 'neither true nor false'],
    [
      'of a map, for all items',
      { kind: 'map', over: '$.input.list', input: '$.input.text + 1' },
      '"hey"',
    ],
    [
      'of a map, for one item',
      { kind: 'map', over: '$.input.list', input: '$.item * $.input.list[0]' },
      'item 2: its input cannot be built: ($."item" * $."input"."list"[0]) where $."item" is "x"',
    ],
    [
      'over what cannot be read',
      { kind: 'map', over: '$.input.text.keyvalue()' },
      'over cannot be',
    ],
    ['over what is no array', { kind: 'map', over: '$.input.text' }, 'but "hey"'],
    ['over nothing', { kind: 'map', over: '$.input.nothing' }, 'but nothing'],
    ['until what is no time', { kind: 'timer', until: '$.input.text' }, 'a time but "hey"'],
    ['until what cannot be read', { kind: 'timer', until: '-$.input.text' }, 'until cannot be'],
    ['until the end of time', { kind: 'timer', until: '$.input.never' }, 'a time but "infinity"'],
  ])('that cannot be built fail the task and say why: %s', async (_, spec, told) => {
    const values = { text: 'hey', list: [1, 2, 'x', true], never: 'infinity' }
    const run = await begin(db(), { a: {}, b: { after: ['a'], ...spec } }, values)
    await run.complete('a')
    expect(await run.task('b')).toMatchObject({ status: 'failed', items: null })
    expect((await run.task('b')).error).toContain(told)
    expect(await run.items('b')).toEqual([])
    expect(await run.status()).toBe('failed')
  })

  it('of maps are over whatever a path finds, one or several', async () => {
    const run = await begin(
      db(),
      { m: { kind: 'map', over: '$.input.list[*] ? (@ > 1)', input: '$.item' } },
      { list: [1, 2, 3] },
    )
    expect((await run.claimAll('m')).map(({ payload }) => payload)).toEqual([2, 3])
  })

  it('that a type refuses fail the task, not whoever moved the run', async () => {
    const workflow = await publish(db(), { a: {}, b: { after: ['a'] }, c: { after: ['a'] } })
    await db().query('update fencepost_private.job_type set payload_check = $1 where type = $2', [
      '$.tasks.a > 1',
      `${workflow}.b`,
    ])
    await db().query(
      'update fencepost_private.job_type set max_payload_bytes = 10 where type = $1',
      [`${workflow}.c`],
    )
    const run = await start(db(), workflow)
    await run.complete('a', 1)
    expect(await run.statuses()).toEqual({ a: 'completed', b: 'failed', c: 'failed' })
    expect((await run.task('b')).error).toMatch(/^JE006: .*check/)
    expect((await run.task('c')).error).toMatch(/^JE006: .*too large/)
    expect(await run.row()).toMatchObject({ status: 'failed', finished_at: expect.any(Date) })
  })

  it('reach a type that is closed or full: a run that has begun goes on', async () => {
    const workflow = await publish(db(), { a: {} })
    await db().query('update fencepost_private.job_type set accept = false where type = $1', [
      `${workflow}.a`,
    ])
    expect((await (await start(db(), workflow)).claim('a')).attempt).toBe(1)
  })
})

type Context = Record<string, unknown>

describe('jobs of tasks', () => {
  it('carry the options of the task, the tenant of the run, and where they belong', async () => {
    const options = { priority: 8, timeout: '90 s', retry: { max_attempts: 2 } }
    const workflow = await publish(db(), {
      a: options,
      m: { kind: 'map', over: '$.input.list', ...options },
    })
    const run = await start(db(), workflow, { list: [1] }, { tenant: 'acme', priority: 3 })
    for (const task of ['a', 'm']) {
      const { job_id } = await run.claim(task)
      const [job] = await db().query<Record<string, unknown>>(
        `select j.priority, j.tenant, j.max_attempts, l.run_id, l.task_id, l.deadline - l.started_at = '90 s' as is_timed
         from fencepost.jobs j join fencepost_private.lease l on l.id = j.id where j.id = $1`,
        [job_id],
      )
      const row = (await run.rows()).find((each) => each.job_id === job_id)
      expect(job).toEqual({
        priority: 8,
        tenant: 'acme',
        max_attempts: 2,
        run_id: run.id,
        task_id: row?.id,
        is_timed: true,
      })
    }
  })
})

describe('the input of a run', () => {
  const schema = {
    type: 'object',
    required: ['amount'],
    additionalProperties: false,
    properties: {
      amount: { type: 'number', minimum: 1, maximum: 10 },
      count: { type: 'integer' },
      name: { type: ['string', 'null'], minLength: 2, maxLength: 4, pattern: '^[a-z]+$' },
      list: { type: 'array', minItems: 1, maxItems: 2, items: { type: 'boolean' } },
      kind: { enum: ['a', { x: 1, y: 2 }] },
      fixed: { const: [1] },
      never: false,
    },
  }

  it.each([
    [{ amount: 1 }, null],
    [{ amount: 10, count: 3, name: 'abc', list: [true], kind: { x: 1, y: 2 }, fixed: [1] }, null],
    [{ amount: 1, name: null }, null],
    [{}, 'input.amount is required'],
    [[], 'input must be of type object'],
    [{ amount: '1' }, 'input.amount must be of type number'],
    [{ amount: 0 }, 'input.amount must be from 1 to 10'],
    [{ amount: 11 }, 'input.amount must be from 1 to 10'],
    [{ amount: 1, count: 1.5 }, 'input.count must be of type integer'],
    [{ amount: 1, name: 'a' }, 'input.name has 1 characters'],
    [{ amount: 1, name: 'abcde' }, 'input.name has 5 characters'],
    [{ amount: 1, name: 'AB' }, 'input.name must match'],
    [{ amount: 1, list: [] }, 'input.list has 0 items'],
    [{ amount: 1, list: [true, 1] }, 'input.list[1] must be of type boolean'],
    [{ amount: 1, kind: 'b' }, 'input.kind must be one of'],
    [{ amount: 1, kind: { x: 1 } }, 'input.kind must be one of'],
    [{ amount: 1, fixed: [1, 2] }, 'input.fixed must be'],
    [{ amount: 1, never: 1 }, 'input.never is not allowed'],
    [{ amount: 1, other: 1 }, 'input.other is not allowed'],
  ])('%j: %s', async (input, problem) => {
    const workflow = await publish(db(), { a: {} }, { input: schema })
    if (problem === null) {
      expect((await (await start(db(), workflow, input)).row()).input).toEqual(input)
    } else {
      expect((await refused(start(db(), workflow, input), 'JE003')).detail).toContain(problem)
    }
  })

  it('of many runs names the place', async () => {
    const workflow = await publish(db(), { a: {} }, { input: schema })
    const many = (inputs: unknown[]) =>
      one<number[]>(
        db(),
        'select fencepost.start_runs($1, (select array_agg(e) from jsonb_array_elements($2::jsonb) as e))',
        [workflow, json(inputs)],
      )
    expect((await refused(many([{ amount: 1 }, { amount: 0 }]), 'JE003')).message).toContain(
      'input 2',
    )
    const ids = await many([{ amount: 1 }, { amount: 2 }, { amount: 3 }])
    expect(ids).toHaveLength(3)
    for (const [index, id] of ids.entries()) {
      expect(await new Run(db(), id, workflow).row()).toMatchObject({
        input: { amount: index + 1 },
        status: 'running',
      })
    }
    expect(await claim(db(), `${workflow}.a`, 10)).toHaveLength(3)
    expect(await one(db(), `select fencepost.start_runs($1, '{}')`, [workflow])).toEqual([])
  })
})

describe('the output of a run', () => {
  it('is the outputs of the tasks that nobody waits for, by name', async () => {
    const child = await publish(db(), {
      a: {},
      b: { after: ['a'] },
      c: { after: ['a'] },
      d: { after: ['a'], when: 'false == true' },
    })
    const run = await begin(db(), { call: { kind: 'workflow', workflow: child } })
    const inner = await run.child('call', child)
    await inner.complete('a', 1)
    await inner.complete('b', { x: 2 })
    await inner.complete('c')
    expect((await run.task('call')).output).toEqual({ b: { x: 2 }, c: null })
    expect(await one(db(), 'select fencepost_private.run_output($1)', [run.id])).toEqual({
      call: { b: { x: 2 }, c: null },
    })
  })
})

it('a definition that was published before what it names is found when it is needed', async () => {
  const run = await begin(db(), { a: { kind: 'workflow', workflow: 'not.there.yet' } })
  expect(await run.task('a')).toMatchObject({
    status: 'failed',
    error: 'JE002: workflow not.there.yet does not exist',
  })
  await publishRaw(db(), 'not.there.yet', { tasks: { x: { type: 'some.type' } } })
  const again = await start(db(), run.workflow)
  expect(await again.statuses()).toEqual({ a: 'waiting' })
})
