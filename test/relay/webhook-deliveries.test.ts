import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { moveClock } from '../support/clock.ts'
import {
  bury,
  type Claimed,
  claimOne,
  complete,
  enqueue,
  fail,
  freshType,
  maintain,
  started,
} from '../support/engine.ts'
import { createConsumer, drainEvents, publishing } from '../support/outbox.ts'
import { Session } from '../support/sessions.ts'
import { column, one, refused } from '../support/sql.ts'
import { freshName, kindOf, typeOf, URL, webhooks } from './webhooks.ts'

const { database, db, webhook, relay, waiting, seen } = webhooks()

describe('relay_webhooks', () => {
  it('makes one delivery of each event, with the event as its message', async () => {
    const type = await publishing(db(), freshType())
    const name = await webhook({ types: [type] })
    const job = await started(db(), type, { tenant: 'acme' })
    await complete(db(), job, { answer: 42 })
    expect(await relay()).toBe(2)
    expect(await relay()).toBe(0)
    const deliveries = await waiting(name)
    expect(deliveries.map(kindOf)).toEqual(['job.enqueued', 'job.completed'])
    expect(deliveries[1]?.payload).toEqual({
      webhook: name,
      message: {
        type: 'job.completed',
        timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
        data: expect.objectContaining({
          id: expect.any(Number),
          kind: 'job.completed',
          type,
          job_id: job.job_id,
          tenant: 'acme',
          outcome: 'completed',
          data: { answer: 42 },
          started_at: expect.stringMatching(/Z$/),
        }),
      },
    })
    expect(deliveries[1]).toMatchObject({ tenant: 'acme' })
  })

  it('is a step of maintain()', async () => {
    const type = await publishing(db(), freshType())
    const name = await webhook({ types: [type] })
    await enqueue(db(), type)
    await moveClock(db(), '1 second')
    await maintain(db())
    expect(await waiting(name)).toHaveLength(1)
  })

  it('never makes deliveries of the events of deliveries, also without a filter', async () => {
    const name = await webhook()
    const other = await webhook()
    const type = freshType()
    await complete(db(), await started(db(), type))
    await db().query(
      'select fencepost.configure_type($1, publish_enqueued => true, publish_started => true)',
      [typeOf(other)],
    )
    await relay()
    // every way in which a delivery can tell of itself
    const deliveries = await waiting(other)
    expect(deliveries.map(kindOf)).toContain('job.completed')
    const [first, second, third] = deliveries as [Claimed, Claimed, Claimed]
    await complete(db(), first)
    await fail(db(), second)
    await bury(db(), third)
    await db().query('select fencepost.cancel(job_id) from unnest($1::bigint[]) as job_id', [
      deliveries.slice(3).map(({ job_id }) => job_id),
    ])
    await waiting(name)
    await relay()
    const again = [...(await waiting(name)), ...(await waiting(other))]
    const told = again.map(
      ({ payload }) => (payload as { message: { data: { type: string } } }).message.data.type,
    )
    expect(told.filter((each) => each?.startsWith('fencepost.webhook.'))).toEqual([])
    expect(await relay()).toBe(0)
  })

  it('gives events of deliveries to other consumers', async () => {
    const type = await publishing(db(), freshType())
    const name = await webhook({ types: [type] })
    const consumer = freshName()
    await createConsumer(db(), consumer, { types: [typeOf(name)] })
    await enqueue(db(), type)
    await relay()
    for (const delivery of await waiting(name)) await complete(db(), delivery)
    expect((await drainEvents(db(), consumer)).map(({ kind }) => kind)).toEqual(['job.completed'])
  })

  it('makes each delivery once when it crashes after the enqueue', async () => {
    const type = await publishing(db(), freshType())
    const name = await webhook({ types: [type] })
    for (let n = 0; n < 10; n++) await enqueue(db(), type)
    await moveClock(db(), '1 second')
    const doomed = await Session.open(database.url)
    await doomed.begin()
    expect(await doomed.query('select fencepost.relay_webhooks() as taken')).toEqual([
      { taken: 10 },
    ])
    // another one meanwhile has nothing to do, and does not wait
    expect(await relay()).toBe(0)
    const ended = doomed.query('select pg_sleep(60)').catch(() => {})
    await one(db(), 'select pg_terminate_backend($1, 5000)', [doomed.pid])
    await ended
    expect(await waiting(name)).toEqual([])
    expect(await relay()).toBe(10)
    expect(await relay()).toBe(0)
    expect(await waiting(name)).toHaveLength(10)
    await doomed[Symbol.asyncDispose]()
  })

  it('passes over events whose deliveries are there when its consumer is moved back', async () => {
    const type = await publishing(db(), freshType())
    const name = await webhook({ types: [type] })
    await enqueue(db(), type)
    await relay()
    await one(db(), `select fencepost.seek_consumer($1, 'beginning')`, [`webhook:${name}`])
    expect(await relay()).toBe(1)
    expect(await waiting(name)).toHaveLength(1)
  })

  it('goes on with the others when one webhook cannot be served, and says why', async () => {
    const type = await publishing(db(), freshType())
    const bad = await webhook({ types: [type] })
    const good = await webhook({ types: [type] })
    await refused(one(db(), 'select fencepost.drop_consumer($1)', [`webhook:${bad}`]), 'JE004')
    await one(db(), 'select fencepost_private.remove_consumer($1)', [`webhook:${bad}`])
    await enqueue(db(), type)
    expect(await relay()).toBe(1)
    expect(await waiting(good)).toHaveLength(1)
    expect(await seen(bad, 'error')).toMatch(/^JE002: consumer .* does not exist/)
    const since = await seen(bad, 'error_at')
    await relay()
    expect(await seen(bad, 'error_at')).toEqual(since)
    await createConsumer(db(), `webhook:${bad}`, { types: [type] }, 'beginning')
    expect(await relay()).toBe(1)
    expect(await seen(bad, 'error')).toBeNull()
  })

  it('leaves events in the log while a webhook is paused or too much waits', async () => {
    const type = await publishing(db(), freshType())
    const name = await webhook({ types: [type] })
    await one(db(), `select fencepost.configure_webhook($1, paused => true, reason => 'moving')`, [
      name,
    ])
    for (let n = 0; n < 5; n++) await enqueue(db(), type)
    expect(await relay()).toBe(0)
    expect(await seen(name, 'paused')).toBe(true)
    expect(await seen(name, 'paused_reason')).toBe('moving')
    await one(db(), 'select fencepost.configure_webhook($1, paused => false)', [name])
    await db().query('select fencepost.configure_type($1, max_pending => 3)', [typeOf(name)])
    expect(await relay()).toBe(3)
    expect(await relay()).toBe(0)
    expect(await seen(name, 'waiting')).toBe(3)
    await waiting(name, 2)
    expect(await relay()).toBe(2)
  })

  it('delivers an event that is larger than payloads may be', async () => {
    const type = freshType()
    const name = await webhook({ types: [type] })
    const large = randomBytes(500_000).toString('hex')
    await complete(db(), await started(db(), type), large)
    expect(await relay()).toBe(1)
    await one(db(), 'select fencepost.configure_type($1, max_payload_bytes => 1000)', [type])
    expect(await waiting(name)).toHaveLength(1)
  })

  it('refuses a max that makes no sense', async () => {
    await refused(relay(0), 'JE003')
  })
})

describe('doctor', () => {
  const found = (topic: string, name: string) =>
    db().query<{ severity: string; remedy: string }>(
      `select severity, remedy from fencepost.doctor() where topic = $1 and finding like '%webhook ' || $2 || ' %'`,
      [topic, name],
    )

  it('names webhooks that are paused while events wait, and not their consumers', async () => {
    const type = await publishing(db(), freshType())
    const name = await webhook({ types: [type] })
    await one(db(), 'select fencepost.configure_webhook($1, paused => true)', [name])
    await enqueue(db(), type)
    await moveClock(db(), '11 minutes')
    const [finding] = await found('webhook_paused', name)
    expect(finding?.severity).toBe('warning')
    await db().query(/select .*?;/.exec(finding?.remedy ?? '')?.[0] ?? '')
    expect(await seen(name, 'paused')).toBe(false)
    const unread = await column<string>(
      db(),
      `select finding from fencepost.doctor() where topic = 'consumer_unread'`,
    )
    expect(unread.join()).not.toContain(name)
  })

  it('names webhooks that cannot be served, and what mends them', async () => {
    const type = await publishing(db(), freshType())
    const name = await webhook({ types: [type] })
    await enqueue(db(), type)
    await one(db(), `select fencepost_private.tick('0')`) // from here on it could be read
    await moveClock(db(), '8 days')
    await one(db(), 'select fencepost_private.expire_consumers()')
    await relay()
    expect(await seen(name, 'error')).toMatch(/^JE004: .* fell behind/)
    expect(await found('webhook_error', name)).toEqual([])
    await moveClock(db(), '2 minutes')
    const [finding] = await found('webhook_error', name)
    expect(finding?.severity).toBe('error')
    await db().query(/select .*?;/.exec(finding?.remedy ?? '')?.[0] ?? '')
    expect(await relay()).toBeGreaterThan(0)
    expect(await found('webhook_error', name)).toEqual([])
  })
})

describe('webhook_delivery', () => {
  const delivery = (job: Claimed, token = job.token) =>
    db().query<{ url: string; message_id: string; body: string; secrets: string[] }>(
      'select * from fencepost.webhook_delivery($1, $2)',
      [job.job_id, token],
    )

  it('gives URL, body and secrets to who holds the lease, the same id at each attempt', async () => {
    const type = await publishing(db(), freshType())
    const name = await webhook({ types: [type] })
    // a number that JavaScript cannot hold
    await db().query('select fencepost.complete($1, $2, $3::text::jsonb)', [
      ...Object.values(await started(db(), type)).slice(0, 2),
      '{"n": 12345678901234567890}',
    ])
    await relay()
    const [, job] = (await waiting(name)) as [Claimed, Claimed]
    const [first] = await delivery(job)
    expect(first).toMatchObject({ url: URL, secrets: [expect.stringMatching(/^whsec_/)] })
    expect(first?.body).toContain('12345678901234567890')
    expect(JSON.parse(first?.body ?? '')).toMatchObject({ type: 'job.completed' })
    expect(first?.message_id).toMatch(/^\d+-\d+$/)
    await fail(db(), job)
    await refused(delivery(job), 'JE001')
    await moveClock(db(), '10 seconds')
    await maintain(db())
    const [again] = await delivery(await claimOne(db(), typeOf(name)))
    expect(again).toEqual(first)
  })

  it('refuses stale tokens, and jobs that deliver nothing', async () => {
    const type = freshType()
    const job = await started(db(), type)
    await refused(delivery(job, job.token + 1), 'JE001')
    await refused(delivery(job), 'JE002')
  })
})
