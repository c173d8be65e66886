import { afterAll, beforeAll, beforeEach, describe, expect, expectTypeOf, it } from 'vitest'
import { z } from 'zod'
import {
  type Decision,
  defineJob,
  defineWorkflow,
  Fencepost,
  type Run,
  RunFailedError,
  RunTimeoutError,
  silentLogger,
} from '../../src/index.ts'
import { ownDatabase } from '../support/server.ts'
import { refused } from '../support/sql.ts'
import { workOff } from '../support/work.ts'

const database = ownDatabase()
let engine: Fencepost
beforeAll(async () => {
  engine = new Fencepost({ url: database.url })
})
afterAll(async () => {
  await engine.close()
})

const reserve = defineJob({
  type: 'order.reserve',
  payload: z.object({ input: z.object({ parcels: z.int() }) }),
  run: ({ input }) => Array.from({ length: input.parcels }, (_, index) => index),
})
const ship = defineJob({
  type: 'order.ship',
  payload: z.int(),
  run: (parcel) => ({ tracking: `T${parcel}` }),
})
const mail = defineJob({ type: 'order.mail', run: () => 'sent' })

const order = defineWorkflow('order', { input: z.object({ parcels: z.int().positive() }) })
  .task('reserve', { type: reserve })
  .map('ship', { type: ship, after: ['reserve'], over: '$.tasks.reserve', input: '$.item' })
  .task('mail', { type: mail, after: ['ship'] })
  .task('gift', { type: 'order.gift', after: ['ship'], when: '$.input.parcels > 100' })

describe('a run', () => {
  beforeAll(() => engine.publish(order))

  it('is started, worked on and waited for, all of it typed', async () => {
    const run = await engine.start(order, { parcels: 2 }, { tags: ['typed'], priority: 8 })
    const worker = engine.worker([reserve, ship, mail], { logger: silentLogger })
    await worker.start()
    const result = await run.result()
    expectTypeOf(result).toEqualTypeOf<{ mail?: string; gift?: unknown }>()
    expect(result).toEqual({ mail: 'sent' })
    const outputs = await run.outputs()
    expectTypeOf(outputs.ship).toEqualTypeOf<{ tracking: string }[] | undefined>()
    expect(outputs).toEqual({
      reserve: [0, 1],
      ship: [{ tracking: 'T0' }, { tracking: 'T1' }],
      mail: 'sent',
    })
    expect(await run.status()).toMatchObject({
      id: run.id,
      status: 'completed',
      version: 1,
      priority: 8,
      output: { mail: 'sent' },
    })
    const tasks = await run.tasks()
    expect(tasks.map(({ name, status }) => [name, status])).toEqual([
      ['reserve', 'completed'],
      ['ship', 'completed'],
      ['gift', 'skipped'],
      ['mail', 'completed'],
    ])
    const parentTaskId = tasks.find(({ name }) => name === 'ship')?.id
    expect(await run.tasks({ parentTaskId })).toMatchObject([{ item: 0 }, { item: 1 }])
    expect((await engine.runs({ tag: 'typed' })).map(({ id }) => id)).toEqual([run.id])
    await worker.stop()
  })

  it('is started once for a key, and with a transaction that commits', async () => {
    const options = { idempotencyKey: 'once', tenant: 'acme' }
    const first = await engine.start(order, { parcels: 1 }, options)
    expect((await engine.start(order, { parcels: 1 }, options)).id).toBe(first.id)
    await refused(engine.start(order, { parcels: 2 }, options), 'JE005')
    let vanished: Run<typeof order> | undefined
    const failing = engine.database.transaction(async (tx) => {
      vanished = await engine.start(order, { parcels: 1 }, { tx })
      throw new Error('no order after all')
    })
    await expect(failing).rejects.toThrow('no order after all')
    expect(await vanished?.status()).toBeUndefined()
    await first.cancel()
  })

  it('is one of many', async () => {
    const runs = await engine.startMany(order, [{ parcels: 1 }, { parcels: 2 }], { version: 1 })
    const inputs = await Promise.all(runs.map(async (run) => (await run.status())?.input))
    expect(inputs).toEqual([{ parcels: 1 }, { parcels: 2 }])
    await refused(engine.startMany(order, [{ parcels: 1 }, { parcels: 0 }]), 'JE003')
    expect(await engine.startMany('order', [])).toEqual([])
    for (const run of runs) await run.cancel()
  })

  it('is refused when its input, workflow or options are wrong', async () => {
    await refused(engine.start(order, { parcels: 0 }), 'JE003')
    // @ts-expect-error: parcels is a number
    await refused(engine.start(order, { parcels: 'two' }), 'JE003')
    await refused(engine.start('order', { parcels: 'two' }), 'JE003')
    await refused(engine.start('never'), 'JE002')
    await refused(engine.start(order, { parcels: 1 }, { version: 9 }), 'JE002')
    await refused(engine.start(7 as never), 'JE003')
    const options = { idempotencyKeys: 'x' } as never
    await expect(engine.start(order, { parcels: 1 }, options)).rejects.toThrow(/idempotencyKey/)
    await expect(engine.startMany(order, [], { idempotencyKey: 'x' } as never)).rejects.toThrow()
  })
})

describe('a definition', () => {
  it('is published once, from a builder or from JSON', async () => {
    const one = defineWorkflow('twice').task('a', { type: 'twice.a' })
    expect(await engine.publish(one)).toBe(1)
    expect(await engine.publish('twice', { tasks: { a: { type: 'twice.a' } } })).toBe(1)
    expect(await engine.publish(one.task('b', { type: 'twice.b', after: ['a'] }))).toBe(2)
    expect(await engine.workflowDiff('twice', 1, 2)).toMatchObject([
      { task: 'b', key: 'after' },
      { task: 'b', key: 'type', before: null, after: 'twice.b' },
    ])
    await refused(engine.publish('bad', { tasks: {} }), 'JE008')
  })

  it('starts the version that equals it, whatever was published since', async () => {
    const one = defineWorkflow('rollback').task('a', { type: 'rollback.a' })
    const two = one.task('b', { type: 'rollback.b' })
    const three = two.task('c', { type: 'rollback.c' })
    const versionOf = async (run: Run) => (await run.status())?.version
    await refused(engine.start(one, {}), 'JE002')
    expect([await engine.publish(one), await engine.publish(two)]).toEqual([1, 2])
    expect(await engine.publish(one)).toBe(1)
    expect(await versionOf(await engine.start(one, {}))).toBe(1)
    expect(await versionOf(await engine.start(one, {}, { version: 2 }))).toBe(2)
    expect(await versionOf(await engine.start('rollback'))).toBe(2)

    // Another process knows the definition, and nothing of what was published when.
    await using other = new Fencepost({ url: database.url })
    const again = defineWorkflow('rollback').task('a', { type: 'rollback.a' })
    const runs = [await other.start(again, {}), ...(await other.startMany(again, [{}, {}]))]
    expect(await Promise.all(runs.map(versionOf))).toEqual([1, 1, 1])
    await expect(other.start(three, {})).rejects.toMatchObject({
      code: 'JE002',
      message: expect.stringContaining('never published'),
      hint: expect.stringMatching(/Publish/),
    })
    await refused(other.startMany(three, [{}]), 'JE002')
  })

  it('that a transaction publishes and starts is forgotten with it', async () => {
    const one = defineWorkflow('undone.start').task('a', { type: 'undone.a' })
    const publishing = engine.database.transaction(async (tx) => {
      await engine.publish(one, { tx })
      await engine.start(one, {}, { tx })
      throw new Error('rolled back')
    })
    await expect(publishing).rejects.toThrow('rolled back')
    expect(await engine.publish(one.task('b', { type: 'undone.b' }))).toBe(1)
    await refused(engine.start(one, {}), 'JE002')
  })

  it('can be published with a transaction', async () => {
    const publishing = engine.database.transaction(async (tx) => {
      await engine.publish(defineWorkflow('undone').task('a', { type: 'a' }), { tx })
      throw new Error('rolled back')
    })
    await expect(publishing).rejects.toThrow('rolled back')
    await refused(engine.start('undone'), 'JE002')
  })
})

describe('waiting for the result', () => {
  const pair = defineWorkflow('pair')
    .task('a', { type: 'pair.a' })
    .task('b', { type: 'pair.b', after: ['a'] })
  const good = { 'pair.a': () => 1, 'pair.b': () => 2 }
  beforeAll(() => engine.publish(pair))

  it('ends with what failed', async () => {
    const run = await engine.start(pair, {})
    const waiting = run.result()
    await workOff(database.db, { ...good, 'pair.a': () => new Error('no paper\nat line 7') })
    const error = await waiting.catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(RunFailedError)
    expect(error).toMatchObject({
      message: `run ${run.id} of pair failed: a: no paper`,
      runId: run.id,
      workflow: 'pair',
      version: 1,
      status: 'failed',
      failures: [{ task: 'a', error: 'no paper\nat line 7' }],
    })
    expect(await run.retry()).toBe(1)
    await workOff(database.db, good)
    expect(await run.result()).toEqual({ b: 2 })
  })

  it('ends with why it was cancelled', async () => {
    const run = await engine.start(pair, {})
    await run.cancel('too late')
    await expect(run.result()).rejects.toThrow(`run ${run.id} of pair cancelled: too late`)
  })

  it('ends in time, or when its signal says so', async () => {
    const run = await engine.start(pair, {})
    await expect(run.result({ timeout: 30 })).rejects.toThrow(RunTimeoutError)
    await expect(run.result({ timeout: 0 })).rejects.toThrow(
      /had not ended after 0 ms: it is running/,
    )
    const stop = new AbortController()
    const waiting = run.result({ signal: stop.signal })
    stop.abort(new Error('never mind'))
    await expect(waiting).rejects.toThrow('never mind')
    await expect(run.result({ timout: 5 } as never)).rejects.toThrow(/timout is not/)
    await run.cancel()
  })

  it('outlives its connections', async () => {
    await using other = new Fencepost({ url: database.url, applicationName: 'cut off' })
    const run = await other.start(pair, {})
    const waiting = run.result()
    const cut = `select count(pg_terminate_backend(pid)) as cut from pg_stat_activity where application_name = 'cut off' and datname = current_database()`
    await expect.poll(async () => (await database.db.query(cut))[0]).toEqual({ cut: 1 })
    await workOff(database.db, good)
    expect(await waiting).toEqual({ b: 2 })
  })

  it('is over when the engine is closed, and for a run that does not exist', async () => {
    await refused(engine.run(999_999_999).result(), 'JE002')
    const other = new Fencepost({ url: database.url })
    const run = await other.start(pair, {})
    const waiting = run.result()
    await other.close()
    await expect(waiting).rejects.toThrow('closed')
    await engine.run(run.id).cancel()
  })
})

describe('control', () => {
  const chain = defineWorkflow('chain')
    .task('a', { type: 'chain.a' })
    .signal('paid', { signal: 'paid', after: ['a'] })
    .task('b', { type: 'chain.b', after: ['paid'] })
  const good = { 'chain.a': () => 'a', 'chain.b': () => 'b' }
  let run: Run<typeof chain>
  beforeAll(() => engine.publish(chain))
  beforeEach(async () => {
    run = await engine.start(chain, {})
  })

  it('pauses and resumes', async () => {
    await run.pause('fire')
    expect(await run.status()).toMatchObject({ status: 'paused', reason: 'fire' })
    expect(await workOff(database.db, good)).toEqual([])
    await run.resume()
    await refused(run.resume(), 'JE004')
    expect(await workOff(database.db, good)).toEqual(['chain.a'])
    await run.cancel()
    expect(await run.status()).toMatchObject({ status: 'cancelled' })
  })

  it('sends signals, explains, and restarts from a task', async () => {
    expect(await run.explain('b')).toMatchObject([{ reason: 'it waits for paid' }])
    await run.signal('paid', { amount: 3 })
    await workOff(database.db, good)
    expect((await run.outputs()).paid).toEqual({ amount: 3 })
    const again = await run.restart('b')
    expect(await again.status()).toMatchObject({ restartedFrom: run.id })
    expect(await workOff(database.db, good)).toEqual(['chain.b'])
    expect(await again.result()).toEqual({ b: 'b' })
    // @ts-expect-error: there is no task c
    await refused(run.restart('c'), 'JE003')
  })

  it('migrates', async () => {
    const version = await engine.publish(chain.task('c', { type: 'chain.c', after: ['a'] }))
    const added = [{ task: 'c', change: 'added' }]
    expect(await run.migrate(version, { dryRun: true })).toEqual(added)
    expect(await run.status()).toMatchObject({ version: 1 })
    expect(await run.migrate(version)).toEqual(added)
    expect(await run.status()).toMatchObject({ version })
    await run.cancel()
  })

  it('replays a task, and puts a gate before one', async () => {
    await workOff(database.db, { 'chain.a': () => new Error('broken') })
    const tasks = await run.tasks()
    const [failed, b] = ['a', 'b'].map((each) => tasks.find(({ name }) => name === each))
    await engine.replayTask(failed?.id ?? 0)
    await refused(engine.replayTask(failed?.id ?? 0), 'JE004')
    const id = await engine.requestApproval(b?.id ?? 0, { reason: 'sure?', expiresAfter: '1d' })
    expect(await engine.approvals({ run_id: run.id })).toMatchObject([
      { id, task: 'b', isGate: true, reason: 'sure?', status: 'pending' },
    ])
    await run.signal('paid')
    expect(await workOff(database.db, good)).toEqual(['chain.a'])
    await engine.approve(id, { decidedBy: 'ada', comment: 'sure' })
    expect(await workOff(database.db, good)).toEqual(['chain.b'])
  })
})

it('a decision is the output of its task', async () => {
  const asking = defineWorkflow('asking').approval('ask', {
    reason: 'May it?',
    onReject: 'continue',
  })
  await engine.publish(asking)
  const runs = await engine.startMany(asking, [{}, {}])
  const [second, first] = await engine.approvals({ workflow: 'asking', status: 'pending' })
  await engine.approve(first?.id ?? 0, { decidedBy: 'ada', data: { limit: 3 } })
  await engine.reject(second?.id ?? 0, { comment: 'no' })
  await refused(engine.approve(second?.id ?? 0), 'JE004')
  await refused(engine.approve(0), 'JE002')
  const [yes, no] = await Promise.all(runs.map((run) => run.result()))
  expectTypeOf(yes?.ask).toEqualTypeOf<Decision | undefined>()
  expect(yes?.ask).toMatchObject({ approved: true, decided_by: 'ada', data: { limit: 3 } })
  expect(no?.ask).toMatchObject({ approved: false, decision: 'rejected', comment: 'no' })
})
