import { connect as connectTcp } from 'node:net'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { createApi } from '../../src/api/app.ts'
import { connect, type Database } from '../../src/database/database.ts'
import { enqueueBatch } from '../../src/database/engine.ts'
import { moveClock } from '../support/clock.ts'
import { freshType } from '../support/engine.ts'
import { publishing } from '../support/outbox.ts'
import { startProxy } from '../support/proxy.ts'
import { Session } from '../support/sessions.ts'
import { type TestApi, testApi } from './client.ts'
import { EventClient } from './sse.ts'

let api: TestApi
beforeAll(async () => {
  api = await testApi()
})
afterAll(() => api.stop())

const db = () => api.database.db
/** A type whose enqueues are events. */
const fresh = () => publishing(db(), freshType())
const put = (type: string, count = 1) => enqueueBatch(db(), type, Array(count).fill({}))
/** The same; and a second has passed, after which readers look anew. */
async function happened(type: string, count = 1): Promise<number[]> {
  const ids = await put(type, count)
  await moveClock(db(), '1 second')
  return ids
}
const jobsOf = (events: readonly { job_id: number }[]) => events.map(({ job_id }) => job_id)

describe('GET /events', () => {
  it('gives the log in parts, each with the place to go on from', async () => {
    const type = await fresh()
    const ids = await happened(type, 5)
    const first = (await api.get(`/events?types=${type}&limit=3`)).body
    expect(first.items[0]).toMatchObject({ kind: 'job.enqueued', type, job_id: ids[0] })
    const second = (await api.get(`/events?types=${type}&after=${first.position}`)).body
    expect(jobsOf([...first.items, ...second.items])).toEqual(ids)
    const third = (await api.get(`/events?types=${type}&after=${second.position}`)).body
    expect(third.items).toEqual([])
    const more = await happened(type)
    const fourth = (await api.get(`/events?types=${type}&after=${third.position}`)).body
    expect(jobsOf(fourth.items)).toEqual(more)
  })

  it('narrows by kind, type and tenant', async () => {
    const [type, other] = [await fresh(), await fresh()]
    await happened(type)
    await enqueueBatch(db(), other, [{}], { tenant: 'acme' })
    await moveClock(db(), '1 second')
    const found = async (query: string) =>
      (await api.get(`/events?${query}`)).body.items.map((each: { type: string }) => each.type)
    expect(await found(`types=${type},${other}`)).toEqual([type, other])
    expect(await found(`types=${type}&types=${other}&tenant=acme`)).toEqual([other])
    expect(await found(`types=${type}&kinds=job.*,run.*`)).toEqual([type])
    expect(await found(`types=${type}&kinds=run.*`)).toEqual([])
  })

  it('begins now or at a time, when it is told so', async () => {
    const type = await fresh()
    await happened(type)
    const now = (await api.get(`/events?types=${type}&after=now`)).body
    expect(now.items).toEqual([])
    const ids = await happened(type)
    expect(
      jobsOf((await api.get(`/events?types=${type}&after=${now.position}`)).body.items),
    ).toEqual(ids)
    const past = await api.get(`/events?types=${type}&after=2000-01-01T00:00:00Z`)
    expect(past.body.items).toHaveLength(2)
  })

  it.each(['after=yesterday', 'kinds=job.complete', 'limit=0', 'types=', 'kind=x', 'after=p1~2'])(
    'refuses %s',
    async (query) => {
      expect(await api.get(`/events?${query}`)).toMatchObject({
        status: 400,
        body: { code: 'JE003' },
      })
    },
  )
})

describe('GET /events/stream', () => {
  it('gives what happens from now on, as it happens', async () => {
    const type = await fresh()
    await put(type)
    await using client = await EventClient.open(api, `?types=${type}`)
    expect(client.response.headers.get('content-type')).toMatch(/^text\/event-stream/)
    expect(client.response.headers.get('cache-control')).toBe('no-store')
    const ids = await put(type, 250)
    const events = await client.events(250)
    expect(jobsOf(events)).toEqual(ids)
    expect(events[0]).toMatchObject({ kind: 'job.enqueued', type, at: expect.any(String) })
    expect(client.lastId).toBe(events.at(-1)?.position)
  })

  it('goes on where a client lost it, without a gap and without repeating', async () => {
    const type = await fresh()
    const seen: number[] = []
    let lastId: string | undefined
    const ids: number[] = []
    for (let round = 0; round < 5; round++) {
      ids.push(...(await put(type, 7)))
      const query = `?types=${type}&after=beginning`
      await using client = await EventClient.open({ open: api.open }, query, lastId)
      seen.push(...jobsOf(await client.events(7)))
      lastId = client.lastId
    }
    expect(seen).toEqual(ids)
  })

  it('comes back from the very beginning of a stream that gave nothing', async () => {
    const type = await fresh()
    let lastId: string | undefined
    {
      await using client = await EventClient.open(api, `?types=${type}`)
      lastId = client.lastId
    }
    const ids = await put(type, 3)
    await using client = await EventClient.open(api, `?types=${type}`, lastId)
    expect(jobsOf(await client.events(3))).toEqual(ids)
  })

  it('goes on while transactions are held open and prepared, whose events come once, after they commit', async () => {
    const type = await fresh()
    await put(type)
    await using client = await EventClient.open(api, `?types=${type}`)
    await using writer = await Session.open(api.database.url)
    await using preparer = await Session.open(api.database.url)
    const late = []
    for (const session of [writer, preparer]) {
      await session.begin()
      const [row] = await session.query<{ id: number }>('select fencepost.enqueue($1) as id', [
        type,
      ])
      late.push(row?.id)
    }
    await preparer.query(`prepare transaction 'sse'`)
    const first = await put(type, 3)
    expect(jobsOf(await client.events(3))).toEqual(first)
    await writer.commit()
    expect(jobsOf(await client.events(1))).toEqual([late[0]])
    const second = await put(type, 2)
    expect(jobsOf(await client.events(2))).toEqual(second)
    await db().query(`commit prepared 'sse'`)
    expect(jobsOf(await client.events(1))).toEqual([late[1]])
    const last = await put(type)
    expect(jobsOf(await client.events(1))).toEqual(last)
  })

  it.each(['?after=yesterday', '?kinds=job.complete', '?tenant=a&x=1'])(
    'refuses %s before it begins',
    async (query) => {
      expect(await api.get(`/events/stream${query}`)).toMatchObject({
        status: 400,
        body: { code: 'JE003' },
      })
    },
  )

  it('refuses a last id that no stream gave', async () => {
    expect(await api.get('/events/stream', { 'last-event-id': '7' })).toMatchObject({
      status: 400,
      body: { code: 'JE003' },
    })
  })
})

describe('a server of streams', () => {
  /** An API of its own, whose stop does not take the database along. */
  async function served(options: Parameters<typeof testApi>[0] = {}) {
    const own = await testApi({ ...options, database: { ...api.database, drop: async () => {} } })
    onTestFinished(() => own.stop())
    return own
  }

  it('says that it is alive, and moves the place on over what is for others', async () => {
    const own = await served({ heartbeat: 10 })
    await using client = await EventClient.open(own, '?types=never.seen')
    const begun = client.lastId
    await put(await fresh(), 3)
    await expect.poll(async () => (await client.message())?.id, { interval: 1 }).not.toBe(begun)
    expect(await client.message()).toMatchObject({ comment: ': alive', data: undefined })
  })

  it('ends them when it stops, at once', async () => {
    const own = await served()
    const clients = await Promise.all(
      Array.from({ length: 5 }, () => EventClient.open(own, '?types=never.seen')),
    )
    const closed = own.server.close(60_000)
    for (const client of clients) expect(await client.message()).toBeUndefined()
    await closed
  })

  it('stops asking for a client that is gone', async () => {
    const asking = counted(db())
    const own = await served({ db: asking.db })
    {
      await using client = await EventClient.open(own, '?types=never.seen')
      expect(client.lastId).toBeDefined()
      await expect.poll(() => asking.count).toBeGreaterThan(3)
    }
    await quietFor(asking, 1_000) // a look is made twice a second, at least
  })

  it('asks the database for nothing before a slow client has taken what came before', async () => {
    const type = await fresh()
    await put(type, 350)
    const asking = counted(db())
    const { fetch } = createApi({ db: asking.db })
    const request = new Request(`http://localhost/events/stream?after=beginning&types=${type}`, {
      headers: { host: 'localhost' },
    })
    const reader = ((await fetch(request)).body as ReadableStream<Uint8Array>).getReader()
    const begun = asking.count
    const texts = []
    for (let part = 0; part < 5; part++) {
      const { value } = await reader.read()
      expect(asking.count - begun).toBe(part)
      texts.push(new TextDecoder().decode(value))
    }
    expect(texts.map((text) => text.split('\ndata: ').length - 1)).toEqual([0, 100, 100, 100, 50])
    await reader.cancel()
  })

  it('asks for no more while a client on the network reads nothing', async () => {
    const tenant = freshType()
    await db().query(
      `insert into fencepost_private.event (xid, at, kind, tenant, data)
       select fencepost_private.xid(), fencepost_private.now(), 'consumer.expired', $1, to_jsonb(repeat('x', 50000))
       from generate_series(1, 2000)`,
      [tenant],
    )
    const asking = counted(db())
    const own = await served({ db: asking.db })
    const socket = connectTcp(own.server.port, '127.0.0.1').pause()
    onTestFinished(() => void socket.destroy())
    const path = `/events/stream?after=beginning&tenant=${tenant}`
    socket.write(`GET ${path} HTTP/1.1\r\nhost: 127.0.0.1:${own.server.port}\r\n\r\n`)
    await expect.poll(() => asking.count).toBeGreaterThan(2)
    await quietFor(asking, 1_000)
    const stalled = asking.count
    expect(stalled).toBeLessThan(12) // 100 MB of events are 20 looks
    let received = 0
    socket.on('data', (chunk) => {
      received += chunk.length
    })
    socket.resume()
    await expect.poll(() => received, { timeout: 60_000 }).toBeGreaterThan(100_000_000)
    expect(asking.count).toBeGreaterThan(stalled)
  })

  it.each([
    ['refuses connections', true],
    ['swallows what it is asked', false],
  ])('says that it is alive while its database %s, and goes on then', async (_, refuses) => {
    const type = await fresh()
    await using proxy = await startProxy(api.database.url)
    await using remote = connect({ url: proxy.url })
    const heartbeat = 20
    const own = await served({ db: remote, heartbeat, deadline: 500 })
    const openedAt = performance.now()
    await using client = await EventClient.open(own, `?types=${type}`)
    const jobs = await put(type, 2)
    expect(jobsOf(await client.events(2))).toEqual(jobs)
    if (refuses) await proxy.close()
    else proxy.blackHole = true
    expect(await own.get('/ready')).toMatchObject({ status: 503 })
    const later = await put(type, 2)
    const saidBefore = Math.ceil((1.2 * (performance.now() - openedAt)) / heartbeat)
    for (let beat = 0; beat < saidBefore + 5; beat++) {
      expect(await client.message()).toMatchObject({ comment: ': alive', data: undefined })
    }
    const port = Number(new URL(proxy.url).port)
    await using _again = refuses ? await startProxy(api.database.url, port) : undefined
    proxy.blackHole = false
    proxy.reset()
    expect(jobsOf(await client.events(2))).toEqual(later)
  })

  it('goes on after its database was lost', async () => {
    const type = await fresh()
    await using proxy = await startProxy(api.database.url)
    await using remote = connect({ url: proxy.url })
    const own = await served({ db: remote })
    await using client = await EventClient.open(own, `?types=${type}`)
    const ids = []
    for (let round = 0; round < 3; round++) {
      proxy.reset()
      ids.push(...(await put(type, 2)))
      expect(jobsOf(await client.events(2))).toEqual(ids.slice(-2))
    }
  })
})

/** A database that counts what it is asked. */
function counted(database: Database) {
  const asking = {
    count: 0,
    db: {
      query: (text: string, ...rest: unknown[]) => {
        asking.count++
        return database.query(text, ...(rest as []))
      },
      transaction: database.transaction.bind(database),
    } as unknown as Database,
  }
  return asking
}

/** Waits until nothing was asked for so many ms. */
async function quietFor(asking: { readonly count: number }, ms: number): Promise<void> {
  for (let before = -1; before !== asking.count; ) {
    before = asking.count
    await new Promise((resolve) => setTimeout(resolve, ms))
  }
}
