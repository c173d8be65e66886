import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { defineJob, defineWorkflow, Fencepost, silentLogger } from '../../src/index.ts'
import { ownDatabase, testDatabase } from '../support/server.ts'
import { refused } from '../support/sql.ts'

const database = ownDatabase()
let engine: Fencepost
beforeAll(async () => {
  engine = new Fencepost({ url: database.url })
})
afterAll(async () => {
  await engine.close()
})

const flow = defineWorkflow('mistaken').task('a', { type: 'mistaken.a' })

/** Everything that can be done in a transaction of the application. */
const inTransaction: Record<string, (engine: Fencepost, options: object) => Promise<unknown>> = {
  enqueue: (engine, options) => engine.enqueue('t', {}, options),
  enqueueMany: (engine, options) => engine.enqueueMany([{ job: 't' }], options),
  enqueueBatch: (engine, options) => engine.enqueueBatch('t', [{}], options),
  cancel: (engine, options) => engine.cancel(1, 'reason', options),
  replay: (engine, options) => engine.replay(1, options),
  discard: (engine, options) => engine.discard(1, 'reason', options),
  reprioritize: (engine, options) => engine.reprioritize(1, 5, options),
  resume: (engine, options) => engine.resume(1, null, options),
  publish: (engine, options) => engine.publish(flow, options),
  start: (engine, options) => engine.start('mistaken', {}, options),
  'start of a definition': (engine, options) => engine.start(flow, {}, options),
  startMany: (engine, options) => engine.startMany('mistaken', [{}], options),
  replayTask: (engine, options) => engine.replayTask(1, options),
  requestApproval: (engine, options) => engine.requestApproval(1, options),
  approve: (engine, options) => engine.approve(1, options),
  reject: (engine, options) => engine.reject(1, options),
  'run.pause': (engine, options) => engine.run(1).pause('reason', options),
  'run.resume': (engine, options) => engine.run(1).resume(options),
  'run.cancel': (engine, options) => engine.run(1).cancel('reason', options),
  'run.retry': (engine, options) => engine.run(1).retry(options),
  'run.restart': (engine, options) => engine.run(1).restart('a', options),
  'run.signal': (engine, options) => engine.run(1).signal('go', null, options),
  'run.migrate': (engine, options) => engine.run(1).migrate(1, { ...options }),
  createConsumer: (engine, options) => engine.createConsumer('mistaken', options),
  seekConsumer: (engine, options) => engine.seekConsumer('mistaken', 'end', options),
  dropConsumer: (engine, options) => engine.dropConsumer('mistaken', options),
}

it.each(Object.entries(inTransaction))(
  '%s refuses an empty or foreign tx, with which nothing would vanish',
  async (_, act) => {
    for (const tx of [undefined, null, 7, {}]) {
      const { message } = await refused(act(engine, { tx }), 'JE003')
      expect(message).toBe('tx is no transaction')
    }
    expect(await engine.jobs({ type: 't' })).toEqual([])
  },
)

it('refuses to complete a job in a transaction that is none, and the job goes on', async () => {
  const job = defineJob({
    type: 'no.transaction',
    run: (_, ctx) => refused(ctx.complete(undefined as never), 'JE003').then(() => 'went on'),
  })
  await using worker = engine.worker([job], { logger: silentLogger })
  await worker.start()
  const id = await engine.enqueue(job, {})
  await expect.poll(async () => (await engine.job(id))?.result).toBe('went on')
})

describe('a database that was never migrated', () => {
  it('says so, whatever is asked of it', async () => {
    await using empty = await testDatabase({ migrated: false })
    await using lost = new Fencepost({ url: empty.url })
    const worker = lost.worker([defineJob({ type: 't', run: () => {} })], { logger: silentLogger })
    const tx = { query: (text: string, params?: unknown[]) => lost.database.query(text, params) }
    const asked: Promise<unknown>[] = [
      lost.enqueue('t', {}),
      lost.enqueue('t', {}, { tx }),
      lost.job(1),
      lost.jobs(),
      lost.workers(),
      lost.stats(),
      lost.start('w'),
      lost.run(1).status(),
      lost.consumers(),
      worker.start(),
    ]
    const answers = await Promise.allSettled(asked)
    for (const each of answers) {
      expect(each).toMatchObject({
        status: 'rejected',
        reason: { code: 'JE011', hint: 'Run fencepost migrate.' },
      })
    }
  })
})
