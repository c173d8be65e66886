import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { moveClock } from '../support/clock.ts'
import { type Claimed, enqueue, fail, freshType } from '../support/engine.ts'
import { createConsumer, publishing } from '../support/outbox.ts'
import { Session } from '../support/sessions.ts'
import { column, one, refused } from '../support/sql.ts'
import { freshName, typeOf, URL, webhooks } from './webhooks.ts'

const { database, db, webhook, relay, waiting, seen } = webhooks()

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
    ['https://[:::]/'],
    ['https://[1.2.3.4]/'],
    ['https://999.999.999.999/'],
    ['https://1.2.3.4.5/'],
    ['https://0x7f.1/'],
    ['https://example.0x/'],
    [`https://example.com/${'x'.repeat(2000)}`],
    [null],
  ])('refuses the URL %s', async (url) => {
    await refused(one(db(), 'select fencepost.create_webhook($1, $2)', [freshName(), url]), 'JE003')
  })

  it.each([
    ['http://127.0.0.1:8080/a?b=c&d=[e]'],
    ['https://[2001:db8::1]:443'],
    ['https://[::ffff:1.2.3.4]/'],
    ['https://1.2.3.4.:8443/'],
    ['https://10.example.0xyz/'],
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
