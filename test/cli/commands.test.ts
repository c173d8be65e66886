import { EventEmitter, once } from 'node:events'
import { describe, expect, it } from 'vitest'
import { claim, complete, fail, registerWorker } from '../../src/database/engine.ts'
import { ownDatabase, testDatabase } from '../support/server.ts'
import { cli, type Surroundings } from './cli.ts'

const database = ownDatabase()

const run = (args: readonly string[], more: Surroundings = {}) =>
  cli(args, { ...more, env: { DATABASE_URL: database.url, ...more.env } })

/** Runs a command with --json and reads what it says. */
async function json(args: readonly string[], more: Surroundings = {}) {
  const { code, out, err } = await run([...args, '--json'], more)
  expect({ code, err }).toEqual({ code: 0, err: '' })
  return JSON.parse(out)
}

async function enqueue(type: string, ...args: string[]): Promise<number> {
  return (await json(['job', 'enqueue', type, ...args])).id
}

async function dead(type: string, error: string): Promise<number> {
  const id = await enqueue(type)
  const [job] = await claim(database.db, { worker: 'w', types: [type] })
  await fail(database.db, id, job?.token ?? 0, { error, permanent: true })
  return id
}

describe('job enqueue', () => {
  it('prints the id', async () => {
    const { code, out, err } = await run([
      'job',
      'enqueue',
      'mail',
      '{"to": "ada"}',
      '--priority',
      '8',
    ])
    expect({ code, err }).toEqual({ code: 0, err: '' })
    const job = await json(['job', 'get', out.trim()])
    expect(job).toMatchObject({
      type: 'mail',
      payload: { to: 'ada' },
      priority: 8,
      status: 'pending',
    })
  })

  it('reads the payload from standard input, and takes all options', async () => {
    const options = [
      '--delay',
      '1 hour',
      '--max-attempts',
      '2',
      '--timeout',
      '5s',
      '--tenant',
      'acme',
    ]
    const headers = ['--headers', '{"traceparent": "00"}']
    const id = (
      await json(['job', 'enqueue', 'mail', '-', ...options, ...headers], { stdin: '[1]' })
    ).id
    const job = await json(['job', 'get', String(id)])
    expect(job).toMatchObject({
      payload: [1],
      max_attempts: 2,
      tenant: 'acme',
      headers: { traceparent: '00' },
    })
    const timed = await enqueue('mail', '--run-at', '2099-01-01')
    expect((await json(['job', 'get', String(timed)])).available_at).toMatch(/^2099-01-01/)
  })

  it('says when the idempotency key was taken', async () => {
    const args = ['job', 'enqueue', 'once', '--idempotency-key', 'k']
    const first = await run(args)
    const again = await run(args)
    expect(again.out).toBe(first.out)
    expect(again.err).toContain('key was taken')
    const clash = await run([...args, '{"a": 1}'])
    expect(clash).toMatchObject({ code: 1, out: '' })
    expect(clash.err).toMatch(/^error JE005: /)
  })

  it.each([
    [['x', '--priority', '-1'], 'JE003', 'priority'],
    [['bad type'], 'JE003', 'must be a name'],
    [['x', '--delay', 'soon'], 'JE003', 'interval'],
    [['x', '--timeout', '-'], 'JE003', 'interval'],
    [['x', '"\\u0000"'], 'JE003', 'NUL'],
  ])('%j is refused with code, detail and hint', async (args, code, message) => {
    const outcome = await run(['job', 'enqueue', ...args])
    expect(outcome).toMatchObject({ code: 1, out: '' })
    expect(outcome.err).toMatch(new RegExp(`^error ${code}: .*${message}`))
    expect(outcome.err).not.toMatch(/\n\s+at /)
  })
})

describe('job get', () => {
  it('shows a job with its attempts and events', async () => {
    const id = await dead('seen', 'no luck')
    const { out } = await run(['job', 'get', String(id)])
    expect(out).toMatch(/status +dead_letter/)
    expect(out).toMatch(/attempts\nattempt +token/)
    expect(out).toContain('job.dead_lettered')
    expect(await run(['job', 'get', '999999999'])).toMatchObject({ code: 1 })
  })
})

describe('job list', () => {
  it('shows a payload that is nested without end as far as it goes', async () => {
    const nested = "(repeat('[', 5000) || repeat(']', 5000))::jsonb"
    const [row] = await database.db.query<{ id: number }>(
      `select fencepost.enqueue('abyss', ${nested}) as id`,
    )
    for (const format of [[], ['--json']]) {
      const { code, out } = await run(['job', 'get', String(row?.id), ...format])
      expect(code).toBe(0)
      expect(out).toContain('nested deeper than 500 levels')
    }
  })

  it('filters', async () => {
    const ids = [await enqueue('listed'), await enqueue('listed'), await enqueue('listed')]
    const all = await json(['job', 'list', '--type', 'listed'])
    expect(all.map(({ id }: { id: number }) => id)).toEqual(ids.toReversed())
    const two = await json([
      'job',
      'list',
      '--type',
      'listed',
      '--limit',
      '2',
      '--before',
      String(ids[2]),
    ])
    expect(two.map(({ id }: { id: number }) => id)).toEqual([ids[1], ids[0]])
    expect((await run(['job', 'list', '--type', 'listed'])).out).toMatch(/^ *id +type +status/)
    expect((await run(['job', 'list', '--type', 'none'])).out).toBe('No such jobs.\n')
    expect((await run(['job', 'list', '--status', 'done'])).err).toContain('JE003')
  })
})

describe('job cancel, retry and explain', () => {
  it('cancel a job that waits, ask one that runs', async () => {
    const waits = await enqueue('c')
    expect((await run(['job', 'cancel', String(waits)])).out).toBe(`job ${waits} is cancelled\n`)
    expect(await run(['job', 'cancel', String(waits)])).toMatchObject({ code: 1 })
    const runs = await enqueue('c')
    await claim(database.db, { worker: 'w', types: ['c'] })
    expect((await run(['job', 'cancel', String(runs), '--reason', 'x'])).out).toContain(
      'asked to stop',
    )
  })

  it('return a dead letter to work', async () => {
    const id = await dead('r', 'x')
    expect((await run(['job', 'retry', String(id)])).out).toBe(`job ${id} is pending again\n`)
    const again = await run(['job', 'retry', String(id)])
    expect(again).toMatchObject({ code: 1 })
    expect(again.err).toMatch(/^error JE004: /)
  })

  it('explain why it is not running', async () => {
    const id = await enqueue('nobody')
    const { out } = await run(['job', 'explain', String(id)])
    expect(out).toMatch(/^no_worker/m)
    expect(out).toContain('Released by:')
    expect((await run(['job', 'explain', '999999999'])).err).toContain('JE002')
  })
})

describe('dlq', () => {
  it('lists, replays and discards by id', async () => {
    const [one, two] = [await dead('dlq', 'no stamp'), await dead('dlq', 'no address')]
    const { out } = await run(['dlq', 'list', '--type', 'dlq'])
    expect(out).toMatch(/no address[\s\S]*no stamp/)
    expect((await run(['dlq', 'replay', String(one)])).out).toBe('1 dead letter returned to work\n')
    expect((await run(['dlq', 'discard', String(two), '--reason', 'old'])).out).toBe(
      '1 dead letter discarded\n',
    )
    expect((await run(['dlq', 'list', '--type', 'dlq'])).out).toBe('No dead letters.\n')
    expect((await run(['dlq', 'discard', String(two)])).err).toContain('JE004')
  })

  it('counts, then acts on all that match', async () => {
    for (const error of ['timeout 1', 'timeout 2', 'refused']) await dead('dlq2', error)
    const filter = ['--type', 'dlq2', '--error', 'timeout']
    expect((await run(['dlq', 'replay', ...filter, '--dry-run'])).out).toContain(
      '2 dead letters would be',
    )
    expect(await json(['dlq', 'replay', ...filter])).toEqual({ count: 2, dry_run: false })
    const rest = ['dlq', 'discard', '--type', 'dlq2', '--error-matches', '^ref']
    expect((await run(rest)).out).toBe('1 dead letter discarded\n')
    expect((await run(['dlq', 'replay', '--error-matches', '('])).err).toContain('JE003')
  })
})

describe('stats', () => {
  it('shows depths once when nobody watches', async () => {
    await enqueue('depth')
    const { out } = await run(['stats', '--type', 'depth'])
    expect(out).toMatch(/^type +ready/)
    expect((await json(['stats', '--type', 'depth']))[0]).toMatchObject({ type: 'depth', ready: 1 })
    expect(await run(['stats', '--type', 'never'])).toMatchObject({ code: 1 })
  })
})

describe('stats in a terminal', () => {
  it('draws again each second, over what it drew, until it is asked to end', async () => {
    const ending = new EventEmitter()
    const asked = once(ending, 'asked').then(() => 'SIGINT')
    let drawn = 0
    const { code, out } = await run(['stats', '--type', 'depth'], {
      width: 100,
      asked,
      onWrite() {
        if (++drawn === 2) ending.emit('asked')
      },
    })
    expect(code).toBe(0)
    expect(out.match(/depth +\d/g)).toHaveLength(2)
    expect(out).toContain('\u001b[3A\u001b[J')
  })
})

describe('doctor', () => {
  it('finds what nobody serves, and proves the invariants', async () => {
    await enqueue('unserved')
    const { out } = await run(['doctor', '--invariants'])
    expect(out).toContain('unserved')
    expect(out).toContain('Remedy:')
    expect((await json(['doctor', '--invariants'])).violations).toEqual([])
  })
})

describe('sql', () => {
  it('shows rows as a table or as JSON', async () => {
    const statement = `select 1 as n, 'é' as text, null as nothing, '{"a": 1}'::jsonb as json`
    const { out } = await run(['sql', statement])
    expect(out).toBe('n  text  nothing  json\n1  é              {"a":1}\n(1 row)\n')
    expect(await json(['sql', statement])).toEqual([
      { n: 1, text: 'é', nothing: null, json: { a: 1 } },
    ])
    expect((await run(['sql', 'select 1 as n where false'])).out).toBe('(0 rows)\n')
  })

  it('runs several statements, from standard input too', async () => {
    const script =
      'create temp table t (a int); insert into t values (1), (2); select sum(a) from t'
    expect(await json(['sql', '-'], { stdin: script })).toEqual([{ sum: 3 }])
  })

  it('shows every column and every statement', async () => {
    const script =
      'create temp table u (a int); insert into u values (1), (2); select 1 as n, 2 as n'
    const { out } = await run(['sql', script])
    expect(out).toBe('CREATE\nINSERT 2\nn  n\n1  2\n(1 row)\n')
    expect(await json(['sql', script])).toEqual([{ n: 1, n_2: 2 }])
    const notice = await run(['sql', "do $$ begin raise notice 'hear'; end $$"])
    expect(notice).toMatchObject({ code: 0, err: 'NOTICE: hear\n' })
  })

  it('tells what the server refuses', async () => {
    const outcome = await run(['sql', 'selec 1'])
    expect(outcome).toMatchObject({ code: 1, out: '' })
    expect(outcome.err).toMatch(/^error 42601: syntax error/)
  })

  it('fits a terminal, with colours unless they are not wanted', async () => {
    const statement = `select repeat('x', 200) as wide`
    const { out } = await run(['sql', statement], { width: 40 })
    expect(out).toContain('\u001b[1mwide\u001b[22m')
    expect(out).toContain(`${'x'.repeat(39)}…`)
    const plain = await run(['sql', statement], { width: 40, env: { NO_COLOR: '1' } })
    expect(plain.out).not.toContain('\u001b')
  })

  it('keeps control characters of the data out of the terminal', async () => {
    const { out } = await run(['sql', String.raw`select E'a\x1b[31mb\nc' as text`])
    expect(out).toBe('text\na [31mb c\n(1 row)\n')
  })
})

it('says that a database has no schema yet', async () => {
  await using empty = await testDatabase({ migrated: false })
  const { code, err } = await cli(['stats'], { env: { DATABASE_URL: empty.url } })
  expect(code).toBe(1)
  expect(err).toMatch(/^error JE011: [\s\S]*Run fencepost migrate\./)
})

describe('migrate', () => {
  it('tells what it would do, does it, and then has nothing to do', async () => {
    await using empty = await testDatabase({ migrated: false })
    const env = { DATABASE_URL: empty.url }
    const planned = await cli(['migrate', '--dry-run'], { env })
    expect(planned).toMatchObject({ code: 0, err: '' })
    expect(planned.out).toMatch(/^would apply 000001-/)
    const script = await cli(['migrate', '--sql'], { env })
    expect(script.out).toContain('create schema')
    expect((await cli(['migrate', '--sql', '--all'])).out).toBe(script.out)
    const done = await cli(['migrate'], { env })
    expect(done.out).toMatch(/^applied 000001-/)
    const again = await cli(['migrate'], { env })
    expect(again).toEqual({ code: 0, out: 'The schema is up to date.\n', err: '' })
    expect((await cli(['migrate', '--sql'], { env })).out).toBe('-- Nothing to do.\n')
  })
})

it('completes a life through the command line alone', async () => {
  const id = await enqueue('life', '{"n": 1}')
  await registerWorker(database.db, { name: 'w', types: ['life'] })
  const [job] = await claim(database.db, { worker: 'w', types: ['life'] })
  await complete(database.db, id, job?.token ?? 0, { done: true })
  expect(await json(['job', 'get', String(id)])).toMatchObject({
    status: 'completed',
    result: { done: true },
  })
})
