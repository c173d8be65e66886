import { describe, expect, it } from 'vitest'
import { freshType } from '../support/engine.ts'
import { publish, publishRaw, start, type TaskSpec } from '../support/runs.ts'
import { ownDatabase } from '../support/server.ts'
import { one, refused } from '../support/sql.ts'

const database = ownDatabase()
const db = () => database.db

describe('versions', () => {
  it('count from 1; an equal definition gives the version that has it', async () => {
    const name = freshType('flow')
    const first = { tasks: { a: { type: 'x' }, b: { type: 'y', after: ['a'] } } }
    const second = { tasks: { a: { type: 'x' } } }
    expect(await publishRaw(db(), name, first)).toBe(1)
    expect(await publishRaw(db(), name, first)).toBe(1)
    expect(await publishRaw(db(), name, second)).toBe(2)
    expect(
      await publishRaw(db(), name, { tasks: { b: { after: ['a'], type: 'y' }, a: { type: 'x' } } }),
    ).toBe(1)
    expect(
      await db().query(
        'select version, tasks, definition from fencepost.workflow_versions where workflow = $1 order by 1',
        [name],
      ),
    ).toEqual([
      { version: 1, tasks: 2, definition: first },
      { version: 2, tasks: 1, definition: second },
    ])
    expect(
      await db().query('select latest_version, tasks from fencepost.workflows where name = $1', [
        name,
      ]),
    ).toEqual([{ latest_version: 2, tasks: 1 }])
  })

  it('runs take the latest, or the one that is named, and keep it', async () => {
    const name = await publish(db(), { a: {} })
    const old = await start(db(), name)
    await publish(db(), { a: {}, b: {} }, {}, name)
    const [latest, first] = [await start(db(), name), await start(db(), name, {}, { version: 1 })]
    expect((await latest.row()).version).toBe(2)
    expect((await first.row()).version).toBe(1)
    expect((await old.row()).version).toBe(1)
    expect(Object.keys(await old.statuses())).toEqual(['a'])
    expect((await refused(start(db(), name, {}, { version: 3 }), 'JE002')).message).toContain(
      'version 3',
    )
    expect((await refused(start(db(), name.slice(0, -1)), 'JE002')).hint).toContain(name)
  })

  it.each([
    ['workflow_version', 'checksum'],
    ['workflow_task', 'name'],
    ['workflow_edge', 'child_no'],
  ])(
    'a published %s is not changed, deleted or truncated, even by its owner',
    async (table, column) => {
      await publish(db(), { a: {}, b: { after: ['a'] } })
      const relation = `fencepost_private.${table}`
      await refused(db().query(`update ${relation} set ${column} = ${column}`), 'JE004')
      await refused(db().query(`delete from ${relation}`), 'JE004')
      await refused(db().query(`truncate ${relation} cascade`), 'JE004')
    },
  )

  it('a workflow with versions is not deleted', async () => {
    const name = await publish(db(), { a: {} })
    await refused(
      db().query('delete from fencepost_private.workflow where name = $1', [name]),
      '23503',
    )
  })

  it('two that are published at once get two numbers', async () => {
    const name = freshType('flow')
    const versions = await Promise.all(
      Array.from({ length: 6 }, (_, n) =>
        publishRaw(db(), name, { tasks: { [`t${n % 3}`]: { type: 'x' } } }),
      ),
    )
    expect([...new Set(versions)].sort()).toEqual([1, 2, 3])
  })

  it('make the types of their tasks, so that no run has to', async () => {
    const name = await publish(db(), { a: { compensate: 'undo.it', priority: 7 } })
    const types = await db().query(
      'select t.type, l.priority from fencepost_private.job_type t join fencepost_private.lane l using (type_id) where t.type in ($1, $2) order by 1 desc',
      ['undo.it', `${name}.a`],
    )
    expect(types).toEqual([
      { type: 'undo.it', priority: 7 },
      { type: `${name}.a`, priority: 7 },
    ])
  })
})

describe('differences', () => {
  it('come by task and key', async () => {
    const name = freshType('flow')
    await publishRaw(db(), name, { tasks: { a: { type: 'x' }, b: { type: 'y', after: ['a'] } } })
    await publishRaw(db(), name, {
      on_failure: 'compensate',
      tasks: { a: { type: 'z' }, c: { type: 'y', after: ['a'], when: '$.input.x == 1' } },
    })
    expect(await db().query('select * from fencepost.workflow_diff($1, 1, 2)', [name])).toEqual([
      { task: null, key: 'on_failure', before: null, after: 'compensate' },
      { task: 'a', key: 'type', before: 'x', after: 'z' },
      { task: 'b', key: 'after', before: ['a'], after: null },
      { task: 'b', key: 'type', before: 'y', after: null },
      { task: 'c', key: 'after', before: null, after: ['a'] },
      { task: 'c', key: 'type', before: null, after: 'y' },
      { task: 'c', key: 'when', before: null, after: '$.input.x == 1' },
    ])
    expect(await db().query('select * from fencepost.workflow_diff($1, 2, 2)', [name])).toEqual([])
    await refused(db().query('select * from fencepost.workflow_diff($1, 1, 3)', [name]), 'JE002')
  })
})

describe('refused, with the place', () => {
  const job = { type: 't.a' }
  const task = (spec: unknown) => ({ tasks: { a: spec } })
  const pair = (spec: TaskSpec) => ({ tasks: { first: job, a: { ...job, ...spec } } })
  const input = (schema: unknown) => ({ input: schema, tasks: { a: job } })

  it.each([
    ['no object', [], 'array'],
    ['no tasks', {}, 'at tasks'],
    ['empty tasks', { tasks: {} }, 'at tasks'],
    ['tasks in an array', { tasks: [job] }, 'at tasks'],
    ['an unknown key', { tasks: { a: job }, taks: {} }, "'taks'"],
    ['an unknown on_failure', { tasks: { a: job }, on_failure: 'stop' }, 'at on_failure'],
    ['a task that is none', task('x'), 'at tasks.a'],
    ['an odd name', { tasks: { 'a b': job } }, 'at tasks'],
    ['an unknown key of a task', task({ type: 'x', aftr: [] }), 'at tasks.a'],
    ['a key of another kind', task({ type: 'x', delay: '1 s' }), 'at tasks.a'],
    ['an unknown kind', task({ kind: 'cron' }), 'at tasks.a.kind'],
    ['a job without a type', task({}), 'at tasks.a.type'],
    ['a type that is no name', task({ type: 'a b' }), 'at tasks.a.type'],
    ['a null', task({ type: null }), 'at tasks.a.type'],
    ['a type that is a number', task({ type: 5 }), 'at tasks.a.type'],
    ['a signal that is a number', task({ kind: 'signal', signal: 5 }), 'at tasks.a.signal'],
    ['a child that is a number', task({ kind: 'workflow', workflow: 5 }), 'at tasks.a.workflow'],
    ['a compensation that is a number', pair({ compensate: 5 }), 'at tasks.a.compensate'],
    ['a description that is a number', pair({ description: 5 }), 'at tasks.a.description'],
    ['a null option', pair({ when: null }), 'at tasks.a.when'],
    ['an odd compensation', pair({ compensate: '' }), 'at tasks.a.compensate'],
    ['after that is no array', pair({ after: 'first' }), 'at tasks.a.after'],
    ['after of numbers', pair({ after: [1] }), 'at tasks.a.after'],
    ['an unknown parent', pair({ after: ['first', 'frist'] }), 'at tasks.a.after[1]'],
    ['a task after itself', pair({ after: ['a'] }), 'at tasks.a.after[0]'],
    ['a parent named twice', pair({ after: ['first', 'first'] }), 'at tasks.a.after'],
    ['a condition that does not parse', pair({ when: '$.input.x >' }), 'at tasks.a.when'],
    ['a condition that is no predicate', pair({ when: '$.input.x' }), 'at tasks.a.when'],
    ['a condition that is a sum', pair({ when: '$.input.x + 1' }), 'at tasks.a.when'],
    ['a condition that filters', pair({ when: '$.input.x ? (@ > 1)' }), 'at tasks.a.when'],
    ['a condition that is a text', pair({ when: '"x"' }), 'at tasks.a.when'],
    ['a condition that is no text', pair({ when: true }), 'at tasks.a.when'],
    ['a condition with a variable', pair({ when: '$amount > 1' }), 'at tasks.a.when'],
    ['a condition over what is not there', pair({ when: '$.inputs.x > 1' }), 'at tasks.a.when'],
    ['a condition over an unknown task', pair({ when: '$.tasks.frist.x > 1' }), 'at tasks.a.when'],
    ['an error of an unknown task', pair({ when: 'exists($.errors."frist")' }), 'at tasks.a.when'],
    ['an item outside of a map', pair({ input: { x: '$.item' } }), 'at tasks.a.input'],
    [
      'a template string that is no path',
      pair({ input: { deep: [{ x: '$.(' }] } }),
      'at tasks.a.input',
    ],
    [
      'a template string that means a dollar',
      pair({ input: { price: '$100' } }),
      'at tasks.a.input',
    ],
    ['a map without over', task({ kind: 'map', type: 'x' }), 'at tasks.a.over'],
    [
      'a map with an odd over',
      task({ kind: 'map', type: 'x', over: '$.input.' }),
      'at tasks.a.over',
    ],
    [
      'a map with no room',
      task({ kind: 'map', type: 'x', over: '$.input.x', max_parallel: 0 }),
      'at tasks.a.max_parallel',
    ],
    ['a timer without a time', task({ kind: 'timer' }), 'at tasks.a'],
    ['a timer with two', task({ kind: 'timer', delay: '1 s', until: '$.input.x' }), 'at tasks.a'],
    ['a delay that is none', task({ kind: 'timer', delay: 'soon' }), 'at tasks.a.delay'],
    ['a negative delay', task({ kind: 'timer', delay: '-1 s' }), 'at tasks.a.delay'],
    ['a delay without an end', task({ kind: 'timer', delay: '200 years' }), 'at tasks.a.delay'],
    ['a number of seconds', task({ kind: 'timer', delay: 60 }), 'at tasks.a.delay'],
    ['a timeout beyond the calendar', pair({ timeout: '300000 years' }), 'at tasks.a.timeout'],
    ['a signal without a name', task({ kind: 'signal' }), 'at tasks.a.signal'],
    ['a child without a workflow', task({ kind: 'workflow' }), 'at tasks.a.workflow'],
    [
      'a version that is none',
      task({ kind: 'workflow', workflow: 'w', version: 1.5 }),
      'at tasks.a.version',
    ],
    ['an odd expiry', task({ kind: 'approval', on_expiry: 'wait' }), 'at tasks.a.on_expiry'],
    ['an odd rejection', task({ kind: 'approval', on_reject: 'retry' }), 'at tasks.a.on_reject'],
    ['a reason that is no text', task({ kind: 'approval', reason: 7 }), 'at tasks.a.reason'],
    ['a priority out of range', pair({ priority: 10 }), 'at tasks.a.priority'],
    ['a retry that is none', pair({ retry: 3 }), 'at tasks.a.retry'],
    ['an unknown key of retry', pair({ retry: { attempts: 3 } }), 'at tasks.a.retry'],
    ['no attempt at all', pair({ retry: { max_attempts: 0 } }), 'at tasks.a.retry.max_attempts'],
    [
      'a task failure policy that is none',
      pair({ on_failure: 'compensate' }),
      'at tasks.a.on_failure',
    ],
    ['a schema that is none', input('string'), 'at input'],
    ['a schema with an unknown type', input({ type: 'text' }), 'at input.type'],
    ['a schema that requires a text', input({ required: 'x' }), 'at input.required'],
    [
      'a schema with an odd minimum',
      input({ properties: { n: { minimum: 'two' } } }),
      'at input.properties.n.minimum',
    ],
    [
      'a schema with an odd length',
      input({ items: { maxLength: -1 } }),
      'at input.items.maxLength',
    ],
    ['a schema with an odd pattern', input({ pattern: '(' }), 'at input.pattern'],
    ['a schema with an odd enum', input({ enum: 'a' }), 'at input.enum'],
    [
      'a schema inside that is none',
      input({ additionalProperties: 'no' }),
      'at input.additionalProperties',
    ],
  ])('%s', async (_, definition, place) => {
    const refusal = await refused(publishRaw(db(), freshType('flow'), definition), 'JE008')
    expect(`${refusal.message} ${refusal.detail}`).toContain(place)
  })

  it.each<[string, TaskSpec]>([
    ['input', { input: { deep: ['$.tasks.other.x'] } }],
    ['input', { input: '$.tasks.a.x' }],
    ['input', { after: ['first'], input: '$.errors.other' }],
    ['when', { after: ['first'], when: '$.tasks.later.x == 1' }],
    ['when', { when: '$.input.x == 1 || exists($.tasks.first)' }],
    ['until', { kind: 'timer', type: undefined, after: ['first'], until: '$.tasks.other' }],
    ['over', { kind: 'map', after: ['first'], over: '$.tasks.later' }],
    ['input', { kind: 'map', after: ['first'], over: '$.tasks.first', input: '$.tasks.a[0]' }],
    ['input', { kind: 'workflow', type: undefined, workflow: 'w', input: '$.tasks.first' }],
  ])('a task that is read, in %s, before it has ended for sure: %j', async (place, spec) => {
    const tasks = {
      first: job,
      a: { ...job, ...spec },
      later: { ...job, after: ['a'] },
      other: job,
    }
    const { message, detail } = await refused(
      publishRaw(db(), freshType('flow'), { tasks }),
      'JE008',
    )
    expect(message).toMatch(
      /^task a reads task (first|a|later|other), which does not come before it$/,
    )
    expect(detail).toContain(`at tasks.a.${place}: received`)
  })

  it('names what was probably meant', async () => {
    const hint = async (definition: unknown) =>
      (await refused(publishRaw(db(), 'w', definition), 'JE008')).hint
    expect(await hint(pair({ after: ['firsst'] }))).toContain("'first'")
    expect(await hint(task({ type: 'x', aftre: [] }))).toContain("'after'")
    expect(await hint(pair({ when: '$.tasks.firsst.x == 1' }))).toContain("'first'")
  })

  it('a cycle, in full', async () => {
    const cycle = {
      tasks: {
        z: job,
        a: { ...job, after: ['z', 'c'] },
        b: { ...job, after: ['a'] },
        c: { ...job, after: ['b'] },
      },
    }
    const { message, detail } = await refused(publishRaw(db(), freshType('flow'), cycle), 'JE008')
    expect(message).toMatch(/cycle: (a -> b -> c -> a|b -> c -> a -> b|c -> a -> b -> c)$/)
    expect(detail).toMatch(/^tasks\.[abc]\.after$/)
  })

  it('more than 1 MiB', async () => {
    const big = task({ ...job, input: { text: 'x'.repeat(1024 * 1024) } })
    expect((await refused(publishRaw(db(), freshType('flow'), big), 'JE008')).message).toContain(
      '1 MiB',
    )
  })

  it('10,001 tasks', async () => {
    const many = Object.fromEntries(Array.from({ length: 10001 }, (_, n) => [`t${n}`, job]))
    expect(
      (await refused(publishRaw(db(), freshType('flow'), { tasks: many }), 'JE008')).message,
    ).toContain('10000')
  })

  it('a name that is none', async () => {
    await refused(publishRaw(db(), '', { tasks: { a: job } }), 'JE003')
    await refused(publishRaw(db(), 'a b', { tasks: { a: job } }), 'JE003')
    await refused(
      one(db(), `select fencepost.publish_workflow(null, '{"tasks": {"a": {"type": "x"}}}')`),
      'JE003',
    )
    await refused(one(db(), 'select fencepost.publish_workflow($1, null)', ['w']), 'JE008')
  })

  it('and leaves nothing behind', async () => {
    const name = freshType('flow')
    await refused(publishRaw(db(), name, pair({ after: ['x'] })), 'JE008')
    expect(
      await db().query('select from fencepost_private.workflow where name = $1', [name]),
    ).toEqual([])
  })
})

describe('accepted', () => {
  it('whole numbers however they are written', async () => {
    const name = freshType('flow')
    await one(
      db(),
      `select fencepost.publish_workflow($1, '{"tasks": {"a": {"type": "x", "priority": 7.0, "retry": {"max_attempts": 2.0}}}}')`,
      [name],
    )
    const { priority } =
      (
        await db().query<{ priority: number }>(
          'select j.priority from fencepost.jobs j join fencepost.tasks t on t.job_id = j.id where t.run_id = $1',
          [(await start(db(), name)).id],
        )
      )[0] ?? {}
    expect(priority).toBe(7)
  })

  it.each([
    '$.input.x > 1 && !(exists($.tasks.first.y))',
    '$.tasks."first".a[*] ? (@.b == "$c") == 1',
    'strict $.input.list[0 to last].x starts with "a"',
    '$.run.id % 2 == 0',
    '$.**.x == 1',
    'exists($)',
    '!($.input.x.double() > 1)',
    '($.input.x > 1) is unknown',
    '$.errors.first like_regex "time.?out"',
    '$.input.due.datetime() < "2030-01-01".datetime()',
  ])('the path %s', async (when) => {
    await publish(db(), { first: {}, a: { after: ['first'], when } })
  })

  it('reads of tasks that come before the parents', async () => {
    await publish(db(), {
      first: {},
      left: { after: ['first'] },
      right: { after: ['first'], input: { x: '$.tasks.first' } },
      end: { after: ['left', 'right'], when: 'exists($.tasks.first) || exists($.errors.left)' },
      last: { after: ['end'], input: ['$.tasks.first.x', '$.tasks.right.x'] },
    })
  })

  it('10,000 tasks in a chain, and in a fan, each in a few seconds', async () => {
    const chain = Object.fromEntries(
      Array.from({ length: 10000 }, (_, n) => [
        `t${n}`,
        { type: 'x', ...(n === 0 ? {} : { after: [`t${n - 1}`], input: [`$.tasks.t${n >> 1}`] }) },
      ]),
    )
    const fan = {
      ...Object.fromEntries(Array.from({ length: 9999 }, (_, n) => [`t${n}`, { type: 'x' }])),
      end: { type: 'x', after: Array.from({ length: 9999 }, (_, n) => `t${n}`) },
    }
    for (const tasks of [chain, fan]) {
      const began = Date.now()
      expect(await publishRaw(db(), freshType('flow'), { tasks })).toBe(1)
      expect(Date.now() - began).toBeLessThan(12_000)
    }
  }, 60_000)
})
