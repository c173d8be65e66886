import { randomBytes } from 'node:crypto'
import { Webhook } from 'standardwebhooks'
import { describe, expect, it } from 'vitest'
import { moveClock } from '../support/clock.ts'
import { testDatabase } from '../support/server.ts'
import { column, one } from '../support/sql.ts'
import { Endpoint, type Hit } from './endpoint.ts'
import { serving } from './serving.ts'

const { db, webhook, relaying, seen, ended, waitsOf, logged } = serving()

/** Throws unless the signature holds, by the library that receivers use. */
const verified = (secret: string, { body, headers }: Hit) =>
  new Webhook(secret).verify(body, headers as Record<string, string>)

const idOf = ({ headers }: Hit) => headers['webhook-id']

describe('a delivery', () => {
  it('is one signed POST of the event', async () => {
    await using endpoint = await Endpoint.open()
    await using _ = relaying()
    const made = await webhook(`${endpoint.url}?for=us`)
    await made.tell()
    await expect.poll(() => endpoint.hits.length).toBe(1)
    const [hit] = endpoint.hits as [Hit]
    expect(verified(made.secret, hit)).toMatchObject({
      type: 'job.enqueued',
      timestamp: expect.stringMatching(/Z$/),
      data: { kind: 'job.enqueued', id: expect.any(Number), job_id: expect.any(Number) },
    })
    expect(hit.url).toBe('/hook?for=us')
    expect(hit.headers).toMatchObject({ 'content-type': 'application/json', connection: 'close' })
    expect(hit.headers['user-agent']).toMatch(/^Fencepost\//)
    const other = `whsec_${randomBytes(32).toString('base64')}`
    expect(() => verified(other, hit)).toThrow()
    expect(() => verified(made.secret, { ...hit, body: `${hit.body} ` })).toThrow()

    await expect.poll(() => ended(made.name)).toMatchObject([{ outcome: 'completed' }])
    const kept = await column<string>(
      db(),
      'select e::text from fencepost_private.event e union all select j::text from fencepost_private.job j',
    )
    expect(`${kept.join()}${logged()}`).not.toContain(made.secret.slice(6))
  })

  it('reaches webhooks that are made while the relay runs', async () => {
    await using endpoint = await Endpoint.open()
    await using _ = relaying()
    for (let n = 1; n <= 3; n++) {
      await (await webhook(endpoint.url)).tell()
      await expect.poll(() => endpoint.hits.length).toBe(n)
    }
  })

  it('is signed with the new and the old secret while they change', async () => {
    await using endpoint = await Endpoint.open()
    await using _ = relaying()
    const made = await webhook(endpoint.url)
    const fresh = await one<string>(db(), 'select fencepost.rotate_webhook_secret($1)', [made.name])
    await made.tell()
    await expect.poll(() => endpoint.hits.length).toBe(1)
    const [during] = endpoint.hits as [Hit]
    expect(String(during.headers['webhook-signature']).split(' ')).toHaveLength(2)
    verified(fresh, during)
    verified(made.secret, during)

    await one(db(), `select fencepost.rotate_webhook_secret($1, keep_old => '0')`, [made.name])
    await made.tell()
    await expect.poll(() => endpoint.hits.length).toBe(2)
    const [, after] = endpoint.hits as [Hit, Hit]
    expect(() => verified(fresh, after)).toThrow()
    expect(() => verified(made.secret, after)).toThrow()
  })
})

describe('a delivery that fails', () => {
  it('is tried again with backoff and the same id, then is a dead letter that can be replayed', async () => {
    await using endpoint = await Endpoint.open()
    endpoint.otherwise = { status: 500, body: 'no\nluck' }
    await using _ = relaying()
    const made = await webhook(endpoint.url)
    // longer than a test takes: who wants the next attempt moves the clock
    await made.configure(`max_attempts => 2, backoff_base => '10 minutes'`)
    await made.tell()
    await expect.poll(() => ended(made.name).length).toBe(1)
    expect(ended(made.name)[0]).toMatchObject({
      outcome: 'failed',
      verdict: 'retry',
      error: 'the endpoint answered 500: no luck',
    })
    const [wait] = await waitsOf(made.name)
    expect(wait).toBeGreaterThan(450)
    expect(wait).toBeLessThanOrEqual(600)
    await moveClock(db(), '10 minutes')
    await expect.poll(() => ended(made.name).length).toBe(2)
    expect(ended(made.name)[1]).toMatchObject({ attempt: 2, verdict: 'dead_letter' })
    expect(await seen(made.name, 'dead_letters')).toBe(1)

    endpoint.otherwise = 200
    await db().query('select fencepost.replay(job_id) from fencepost.dead_letter')
    await expect.poll(() => endpoint.hits.length).toBe(3)
    expect(new Set(endpoint.hits.map(idOf)).size).toBe(1)
    for (const hit of endpoint.hits) verified(made.secret, hit)
  })

  it('waits as long as Retry-After says', async () => {
    await using endpoint = await Endpoint.open(
      { status: 429, headers: { 'retry-after': '120' } },
      { status: 503, headers: { 'retry-after': '999999999' } },
    )
    await using _ = relaying()
    const made = await webhook(endpoint.url)
    await made.tell()
    await expect.poll(() => ended(made.name).length).toBe(1)
    expect((await waitsOf(made.name))[0]).toBeGreaterThan(110)
    expect((await waitsOf(made.name))[0]).toBeLessThanOrEqual(120)
    await made.tell()
    await expect.poll(() => ended(made.name).length).toBe(2)
    const longest = Math.max(...(await waitsOf(made.name)))
    expect(longest).toBeGreaterThan(86_000)
    expect(longest).toBeLessThanOrEqual(86_400)
    await one(db(), 'select fencepost.drop_webhook($1)', [made.name])
  })

  it('waits no shorter than its backoff, whatever Retry-After says', async () => {
    await using endpoint = await Endpoint.open()
    await using _ = relaying()
    const made = await webhook(endpoint.url)
    await made.configure(`backoff_base => '10 minutes'`)
    const said = ['1', '0', '-5', 'soon', 'Sun, 06 Nov 1994 08:49:37 GMT']
    for (const [index, text] of said.entries()) {
      endpoint.otherwise = { status: 503, headers: { 'retry-after': text } }
      await made.tell()
      await expect.poll(() => ended(made.name).length).toBe(index + 1)
    }
    const waits = await waitsOf(made.name)
    expect(waits).toHaveLength(said.length)
    for (const wait of waits) expect(wait).toBeGreaterThan(450)

    endpoint.otherwise = { status: 503, headers: { 'retry-after': '15' } }
    await moveClock(db(), '10 minutes')
    await expect.poll(() => ended(made.name).length).toBe(2 * said.length)
    // the second attempt waits 4 times as long as the first
    for (const wait of await waitsOf(made.name)) expect(wait).toBeGreaterThan(1_000)
    await one(db(), 'select fencepost.drop_webhook($1)', [made.name])
  })

  it('does not follow a redirect', async () => {
    await using elsewhere = await Endpoint.open()
    await using endpoint = await Endpoint.open({
      status: 302,
      headers: { location: elsewhere.url },
    })
    await using _ = relaying()
    const made = await webhook(endpoint.url)
    await made.tell()
    await expect
      .poll(() => ended(made.name))
      .toMatchObject([{ error: 'the endpoint answered 302 (redirects are not followed)' }])
    expect(elsewhere.hits).toEqual([])
    await one(db(), 'select fencepost.drop_webhook($1)', [made.name])
  })

  it('to an endpoint that does not let it in, or is not there, is tried again', async () => {
    await using endpoint = await Endpoint.open()
    await using _ = relaying()
    const made = await webhook(endpoint.url)
    const refusals = [401, 403, 404]
    for (const [index, status] of refusals.entries()) {
      endpoint.otherwise = status
      await made.tell()
      await expect.poll(() => ended(made.name).length).toBe(index + 1)
      expect(ended(made.name)[index]?.error).toBe(`the endpoint answered ${status}`)
    }
    expect(await seen(made.name, 'paused')).toBe(false)
    endpoint.otherwise = 204
    await moveClock(db(), '5 seconds')
    await expect.poll(() => endpoint.hits.length).toBe(6)
    expect(new Set(endpoint.hits.map(idOf)).size).toBe(3)
    await expect.poll(() => seen(made.name, 'waiting')).toBe(0)
    expect(await seen(made.name, 'dead_letters')).toBe(0)
  })

  it('pauses its webhook when the endpoint is gone; nothing is lost', async () => {
    await using endpoint = await Endpoint.open(410)
    await using _ = relaying()
    const made = await webhook(endpoint.url)
    await made.tell()
    await expect.poll(() => seen(made.name, 'paused')).toBe(true)
    expect(await seen(made.name, 'paused_reason')).toBe('the endpoint answered 410 Gone')
    await made.tell()
    await expect.poll(() => ended(made.name).length).toBe(1)
    expect(endpoint.hits).toHaveLength(1)
    await made.configure('paused => false')
    await moveClock(db(), '5 seconds')
    await expect.poll(() => endpoint.hits.length).toBe(3)
    expect(new Set(endpoint.hits.map(idOf)).size).toBe(2)
  })

  it('is one that has no public address, when that is not allowed', async () => {
    await using endpoint = await Endpoint.open()
    await using _ = relaying({ allowPrivate: false })
    const plain = await webhook(endpoint.url)
    const local = await webhook(`https://localhost:${endpoint.port}/`)
    await plain.tell()
    await local.tell()
    await expect.poll(() => ended(plain.name)[0]?.error).toMatch(/has no TLS/)
    await expect
      .poll(() => ended(local.name)[0]?.error)
      .toMatch(/localhost is not a public address/)
    expect(endpoint.hits).toEqual([])
    for (const { name } of [plain, local])
      await one(db(), 'select fencepost.drop_webhook($1)', [name])
  })
})

describe('a dead endpoint', () => {
  it('delays no other: each webhook has its own places', async () => {
    await using silent = await Endpoint.open()
    silent.otherwise = () => {} // takes requests, and never answers
    await using good = await Endpoint.open()
    await using _ = relaying()
    const dead = await webhook(silent.url)
    const alive = await webhook(good.url)
    for (let n = 0; n < 25; n++) await dead.tell()
    await expect.poll(() => silent.hits.length).toBe(10) // its max_running
    for (let n = 0; n < 25; n++) await alive.tell()
    await expect.poll(() => good.hits.length).toBe(25)
    expect(ended(alive.name).every(({ duration_ms }) => duration_ms < 5000)).toBe(true)
    expect(silent.hits).toHaveLength(10)
    expect(ended(dead.name)).toEqual([])
    await one(db(), 'select fencepost.drop_webhook($1)', [dead.name])
    // those under way are told to stop
    await expect.poll(() => ended(dead.name).length).toBe(10)
  })

  it('is given up after its timeout', async () => {
    await using silent = await Endpoint.open()
    silent.otherwise = () => {}
    await using _ = relaying()
    const made = await webhook(silent.url)
    await made.configure(`timeout => '1 second'`)
    await made.tell()
    await expect.poll(() => ended(made.name)).toMatchObject([{ attempt: 1 }])
    expect(ended(made.name)[0]?.outcome).not.toBe('completed')
    await one(db(), 'select fencepost.drop_webhook($1)', [made.name])
  })
})

describe('the relay', () => {
  it('may run beside others: each event is delivered once', async () => {
    await using endpoint = await Endpoint.open()
    await using _one = relaying()
    await using _two = relaying()
    const made = await webhook(endpoint.url)
    for (let n = 0; n < 50; n++) await made.tell()
    await expect.poll(() => endpoint.hits.length).toBe(50)
    await expect.poll(() => seen(made.name, 'waiting')).toBe(0)
    expect(new Set(endpoint.hits.map(idOf)).size).toBe(50)
    expect(endpoint.hits).toHaveLength(50)
  })

  it('stops while its worker cannot reach the database', async () => {
    await webhook('https://example.com/')
    await using _ = relaying({ db: db(), url: 'postgresql://127.0.0.1:1/none' })
    await expect.poll(logged).toMatch(/ECONNREFUSED/)
  })

  it('ends when the schema does not fit', async () => {
    await using elsewhere = await testDatabase()
    await elsewhere.db.query('drop view fencepost.webhooks; drop function fencepost.relay_webhooks')
    await using relay = relaying({ url: elsewhere.url })
    await expect(relay.running).rejects.toMatchObject({ code: 'JE011' })
  })
})
