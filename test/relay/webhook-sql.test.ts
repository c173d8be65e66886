import { randomBytes } from 'node:crypto'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { json } from '../../src/database/database.ts'
import { moveClock, restoreClock } from '../support/clock.ts'
import {
  bury,
  type Claimed,
  claim,
  claimOne,
  complete,
  enqueue,
  fail,
  freshType,
  maintain,
  started,
  violations,
} from '../support/engine.ts'
import { createConsumer, drainEvents, publishing } from '../support/outbox.ts'
import { type TestDatabase, testDatabase } from '../support/server.ts'
import { Session } from '../support/sessions.ts'
import { column, one, refused } from '../support/sql.ts'

let database: TestDatabase
const db = () => database.db
beforeAll(async () => {
  database = await testDatabase()
})
afterAll(() => database.drop())
afterEach(async () => {
  await restoreClock(db())
  await db().query('select fencepost.drop_webhook(name) from fencepost.webhooks')
  expect(await violations(db())).toEqual([])
})

const URL = 'https://example.com/hooks'
const freshName = () => `hook.${randomBytes(5).toString('hex')}`
const typeOf = (name: string) => `fencepost.webhook.${name}`

/** A webhook of its own; its name. */
async function webhook(filter: object = {}, name = freshName()): Promise<string> {
  await one(db(), 'select fencepost.create_webhook($1, $2, $3)', [name, URL, json(filter)])
  return name
}

/** Lets a second pass, after which readers look anew, and relays once. */
async function relay(max = 1000): Promise<number> {
  await moveClock(db(), '1 second')
  return one<number>(db(), 'select fencepost.relay_webhooks($1)', [max])
}

/** The deliveries of a webhook that wait. */
const waiting = (name: string, max = 1000) => claim(db(), typeOf(name), max)

const seen = (name: string, what: string) =>
  one(db(), `select ${what} from fencepost.webhooks where name = $1`, [name])

const kindOf = (delivery: Claimed) =>
  (delivery.payload as { message: { type: string } }).message.type

describe('create_webhook', () => {
  it('returns a secret of 32 bytes once, and no view shows it', async () => {
    const name = freshName()
    const secret = await one<string>(db(), 'select fencepost.create_webhook($1, $2)', [name, URL])
    expect(secret).toMatch(/^whsec_/)
    expect(Buffer.from(secret.slice(6), 'base64')).toHaveLength(32)
    const other = await one<string>(db(), 'select fencepost.create_webhook($1, $2)', [
      freshName(),
      URL,
    ])
    expect(other).not.toBe(secret)
    const views = await column<string>(
      db(),
      `select row_to_json(w)::text from fencepost.webhooks w where name = $1
       union all select e::text from fencepost_private.event e where kind = 'operator.webhook_changed'
       union all select c::text from fencepost_private.consumer c`,
      [name],
    )
    expect(views.join()).toContain(name)
    expect(views.join()).not.toContain(secret.slice(6))
  })

  it('takes a secret that is given, and settings of its deliveries that fit the Internet', async () => {
    const name = freshName()
    const given = `whsec_${randomBytes(24).toString('base64')}`
    expect(
      await one(db(), 'select fencepost.create_webhook($1, $2, secret => $3)', [name, URL, given]),
    ).toBe(given)
    const [row] = await db().query('select * from fencepost.webhooks where name = $1', [name])
    expect(row).toMatchObject({
      url: URL,
      paused: false,
      max_attempts: 12,
      timeout: '00:00:20',
      max_running: 10,
      waiting: 0,
      dead_letters: 0,
      error: null,
      old_secret_until: null,
      consumer: `webhook:${name}`,
      type: typeOf(name),
    })
  })

  it.each([
    ['http://user:secret@example.com/'],
    ['ftp://example.com/'],
    ['https://example.com/#there'],
    ['https://exa mple.com/'],
    ['https://example.com\\@127.0.0.1/'],
    ['https:///hooks'],
    ['example.com'],
    ['https://bücher.example/'],
    [`https://example.com/${'x'.repeat(2000)}`],
    [null],
  ])('refuses the URL %s', async (url) => {
    await refused(one(db(), 'select fencepost.create_webhook($1, $2)', [freshName(), url]), 'JE003')
  })

  it.each([
    ['http://127.0.0.1:8080/a?b=c&d=[e]'],
    ['https://[2001:db8::1]:443'],
    ['HTTPS://EXAMPLE.COM'],
    ['https://example.com?x=%20"'],
  ])('takes the URL %s', async (url) => {
    await one(db(), 'select fencepost.create_webhook($1, $2)', [freshName(), url])
  })

  it.each([
    ['whsec_'],
    ['secret'],
    ['whsec_c2hvcnQ='],
    [`whsec_${'A'.repeat(33)}`],
    [`whsec_${'A'.repeat(200)}`],
    [`whsec_${'A'.repeat(32)}====`],
  ])('refuses the secret %s, and does not repeat it', async (secret) => {
    const call = one(db(), 'select fencepost.create_webhook($1, $2, secret => $3)', [
      freshName(),
      URL,
      secret,
    ])
    const { message, detail } = await refused(call, 'JE003')
    expect(`${message} ${detail}`).not.toContain(secret.slice(6) || 'nothing of it')
  })

  it('refuses names and filters that make no sense, and a name that is taken', async () => {
    const name = await webhook()
    await refused(webhook({}, name), 'JE004')
    await refused(webhook({}, 'two words'), 'JE003')
    await refused(webhook({}, 'x'.repeat(101)), 'JE003')
    await refused(webhook({ kinds: ['job.finished'] }), 'JE003')
    const taken = freshName()
    await createConsumer(db(), `webhook:${taken}`)
    await refused(webhook({}, taken), 'JE004')
  })
})

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

describe('rotate_webhook_secret', () => {
  const secrets = async (name: string) =>
    one<string[]>(
      db(),
      `select array(select s.secret from fencepost_private.webhook_secret s join fencepost_private.webhook w using (webhook_id)
                    where w.name = $1 order by s.expires_at nulls first)`,
      [name],
    )

  it('keeps the old secret for a day, then forgets it', async () => {
    const name = await webhook()
    const [old] = await secrets(name)
    const fresh = await one<string>(db(), 'select fencepost.rotate_webhook_secret($1)', [name])
    expect(await secrets(name)).toEqual([fresh, old])
    expect(
      await seen(name, `old_secret_until - fencepost_private.now() between '23:59' and '24:00'`),
    ).toBe(true)
    await moveClock(db(), '1 day')
    await relay()
    expect(await secrets(name)).toEqual([fresh])
    const last = await one<string>(
      db(),
      `select fencepost.rotate_webhook_secret($1, keep_old => '0')`,
      [name],
    )
    await relay()
    expect(await secrets(name)).toEqual([last])
  })

  it('refuses what makes no sense', async () => {
    const name = await webhook()
    const [secret] = await secrets(name)
    await refused(one(db(), `select fencepost.rotate_webhook_secret('nobody')`), 'JE002')
    await refused(one(db(), `select fencepost.rotate_webhook_secret($1, '-1 s')`, [name]), 'JE003')
    await refused(
      one(db(), `select fencepost.rotate_webhook_secret($1, secret => 'x')`, [name]),
      'JE003',
    )
    await refused(
      one(db(), 'select fencepost.rotate_webhook_secret($1, secret => $2)', [name, secret]),
      'JE004',
    )
  })
})

describe('configure_webhook', () => {
  const configure = (name: string, change: string) =>
    one(db(), `select fencepost.configure_webhook($1, ${change})`, [name])

  it('changes what is given, and says so in the log', async () => {
    const name = await webhook()
    await configure(
      name,
      `url => 'https://example.com/new', filter => '{"kinds": ["run.*"], "tenant": "acme"}', max_attempts => 3, timeout => '5 s', max_running => 2, backoff_base => '1 s', backoff_cap => '1 min'`,
    )
    const [row] = await db().query('select * from fencepost.webhooks where name = $1', [name])
    expect(row).toMatchObject({
      url: 'https://example.com/new',
      kinds: ['run.*'],
      types: null,
      tenant: 'acme',
      max_attempts: 3,
      timeout: '00:00:05',
      max_running: 2,
      backoff_base: '00:00:01',
      backoff_cap: '00:01:00',
    })
    const changes = await column(
      db(),
      `select data ->> 'change' from fencepost_private.event where kind = 'operator.webhook_changed' and data ->> 'webhook' = $1 order by id`,
      [name],
    )
    expect(changes).toEqual(['created', 'configured'])
  })

  it('refuses what makes no sense', async () => {
    const name = await webhook()
    await refused(configure('nobody', 'paused => true'), 'JE002')
    await refused(configure(name, `url => 'nowhere'`), 'JE003')
    await refused(configure(name, `timeout => '1 hour'`), 'JE003')
    await refused(configure(name, 'max_running => 0'), 'JE003')
    await refused(configure(name, 'max_attempts => 0'), 'JE003')
    await refused(configure(name, `filter => '{"kind": "x"}'`), 'JE003')
  })
})

describe('drop_webhook', () => {
  it('cancels deliveries and forgets secrets; one of the same name begins anew', async () => {
    const type = await publishing(db(), freshType())
    const name = await webhook({ types: [type] })
    for (let n = 0; n < 3; n++) await enqueue(db(), type)
    await relay()
    const [running] = (await waiting(name, 1)) as [Claimed]
    expect(await one(db(), 'select fencepost.drop_webhook($1)', [name])).toBe(true)
    expect(await one(db(), 'select fencepost.drop_webhook($1)', [name])).toBe(false)
    expect(await waiting(name)).toEqual([])
    await refused(
      db().query('select * from fencepost.webhook_delivery($1, $2)', [
        running.job_id,
        running.token,
      ]),
      'JE002',
    )
    expect(await fail(db(), running)).toBe('cancelled')
    expect(await one(db(), 'select count(*) from fencepost_private.webhook_secret')).toBe(0)

    await webhook({ types: [type] }, name)
    expect(await relay()).toBe(0)
    await one(db(), `select fencepost.seek_consumer($1, 'beginning')`, [`webhook:${name}`])
    expect(await relay()).toBe(3)
    expect(await waiting(name)).toHaveLength(3)
  })

  it('is refused while a session reads its consumer', async () => {
    const name = await webhook()
    await using session = await Session.open(database.url)
    await session.begin()
    await session.query('select * from fencepost.read_events($1)', [`webhook:${name}`])
    await refused(one(db(), 'select fencepost.drop_webhook($1)', [name]), 'JE001')
    await session.rollback()
  })
})
