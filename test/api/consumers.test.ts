import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { enqueueBatch } from '../../src/database/engine.ts'
import { moveClock, restoreClock } from '../support/clock.ts'
import { freshType } from '../support/engine.ts'
import { publishing, takeTick } from '../support/outbox.ts'
import { Session } from '../support/sessions.ts'
import { type TestApi, testApi } from './client.ts'

let api: TestApi
beforeAll(async () => {
  api = await testApi()
})
afterAll(() => api.stop())

const db = () => api.database.db

/** A consumer of the enqueues of a type of its own, by the same name, with so many events to read. */
async function fresh(events = 0) {
  const name = await publishing(db(), freshType())
  const { status } = await api.send('PUT', `/consumers/${name}`, { filter: { types: [name] } })
  expect(status).toBe(201)
  const ids = events === 0 ? [] : await enqueueBatch(db(), name, Array(events).fill({}))
  await moveClock(db(), '1 second')
  const at = (verb: string, body?: unknown) => api.post(`/consumers/${name}/${verb}`, body)
  const read = async (reader = 'r') => (await at('read', { reader })).body
  return { name, path: `/consumers/${name}`, ids, at, read }
}
const jobsOf = (items: readonly { job_id: number }[]) => items.map(({ job_id }) => job_id)
const code = (status: number, code: string) => ({ status, body: { code } })

describe('a consumer', () => {
  it('is made once, and refused with other settings', async () => {
    const { path, name } = await fresh()
    const body = { filter: { types: [name] } }
    const again = await api.send('PUT', path, body)
    expect(again).toMatchObject({ status: 200, body: { name, types: [name], max_lag: '7 days' } })
    expect(await api.send('PUT', path, { ...body, max_lag: null })).toMatchObject(
      code(409, 'JE004'),
    )
    expect(await api.send('PUT', path, { filter: { kind: 'x' } })).toMatchObject(code(400, 'JE003'))
    expect(await api.send('PUT', '/consumers/early', { start: '2999-01-01' })).toMatchObject({
      status: 400,
      body: {
        code: 'JE003',
        title: expect.any(String),
        detail: expect.stringContaining('has not come yet'),
      },
    })
    expect(await api.send('PUT', '/consumers/-bad')).toMatchObject(code(400, 'JE003'))
    expect(await api.get(path)).toMatchObject({ status: 200, body: again.body })
    const { items } = (await api.get('/consumers')).body
    expect(items.map((each: { name: string }) => each.name)).toContain(name)
    expect(await api.get('/consumers?x=1')).toMatchObject(code(400, 'JE003'))
  })

  it('takes no body for its defaults, and a name with a slash', async () => {
    expect(await api.send('PUT', '/consumers/team%2Fbilling')).toMatchObject({
      status: 201,
      body: { name: 'team/billing', kinds: null, tenant: null },
    })
    expect(await api.send('DELETE', '/consumers/team%2Fbilling')).toMatchObject({ status: 204 })
  })

  it('that does not exist is JE002', async () => {
    const at = '/consumers/nobody'
    const replies = await Promise.all([
      api.get(at),
      api.send('DELETE', at),
      api.post(`${at}/seek`, { to: 'now' }),
      api.post(`${at}/read`, { reader: 'r' }),
      api.post(`${at}/ack`, { position: '1.0' }),
      api.post(`${at}/park`, { position: '1.0', reason: 'x' }),
      api.get(`${at}/parked`),
      api.post(`${at}/parked/replay`, { all: true }),
      api.post(`${at}/parked/discard`, { all: true }),
    ])
    for (const reply of replies) expect(reply).toMatchObject(code(404, 'JE002'))
  })
})

describe('reading', () => {
  it('gives events until they are acknowledged, to one reader at a time', async () => {
    const { ids, at, read } = await fresh(3)
    const first = await read('one')
    expect(jobsOf(first.items)).toEqual(ids)
    expect(await read('two')).toEqual({ items: [], position: null })
    expect(await read('one')).toEqual(first)
    const part = await at('ack', { position: first.items[0].position })
    expect(part).toMatchObject({ status: 200, body: { moved: true } })
    expect(jobsOf((await read('one')).items)).toEqual(ids.slice(1))
    expect((await at('ack', { position: first.position })).body).toEqual({ moved: true })
    expect((await at('ack', { position: first.position })).body).toEqual({ moved: false })
    expect(await read('two')).toEqual({ items: [], position: null })
  })

  it('refuses a reader whose lease went to another', async () => {
    const { at, read, ids } = await fresh(2)
    const slow = (await at('read', { reader: 'slow', lease: '1 minute', max: 1 })).body
    expect(slow.items).toHaveLength(1)
    await moveClock(db(), '2 minutes')
    expect(jobsOf((await read('quick')).items)).toEqual(ids)
    expect(await at('ack', { position: slow.position })).toMatchObject(code(409, 'JE001'))
    await restoreClock(db())
  })

  it('says what is wrong with what was asked', async () => {
    const { at, path } = await fresh()
    const wrong: [string, unknown][] = [
      ['read', {}],
      ['read', { reader: 'r', max: 0 }],
      ['read', { reader: 'r', lease: 'soon' }],
      ['ack', { position: 'here' }],
      ['seek', { to: 'yesterday' }],
      ['seek', { to: '2999-01-01T00:00:00Z' }],
      ['seek', {}],
      ['park', { position: '1.0', reason: '' }],
      ['parked/replay', {}],
      ['parked/discard', { all: true, event_ids: [1] }],
    ]
    for (const [verb, body] of wrong) {
      expect(await at(verb, body), verb).toMatchObject(code(400, 'JE003'))
    }
    expect(await api.get(`${path}/parked?after=x`)).toMatchObject(code(400, 'JE003'))
  })

  it('is refused when the consumer has expired, until it is moved', async () => {
    const { name, at, read, ids } = await fresh(1)
    await takeTick(db())
    await moveClock(db(), '8 days')
    await db().query('select fencepost_private.expire_consumers()')
    expect(await at('read', { reader: 'r' })).toMatchObject(code(409, 'JE004'))
    expect(await at('seek', { to: 'beginning' })).toMatchObject({
      status: 200,
      body: { name, expired_at: null },
    })
    expect(jobsOf((await read()).items)).toEqual(ids)
    await restoreClock(db())
  })
})

it('a consumer that a transaction holds is neither moved nor dropped', async () => {
  const { name, at, path } = await fresh(1)
  await using session = await Session.open(api.database.url)
  await session.begin()
  await session.query('select from fencepost.read_events($1)', [name])
  const replies = await Promise.all([at('seek', { to: 'now' }), api.send('DELETE', path)])
  for (const reply of replies) expect(reply).toMatchObject(code(409, 'JE001'))
  await session.rollback()
  expect(await api.send('DELETE', path)).toMatchObject({ status: 204 })
})

it('events that cannot be delivered are set aside, looked at, and read again or given up', async () => {
  const { path, at, read, ids } = await fresh(3)
  const { items, position } = await read()
  for (const [index, event] of items.entries()) {
    const parked = await at('park', { position: event.position, reason: `reason ${index}` })
    expect(parked).toMatchObject({ status: 204 })
  }
  await at('ack', { position })
  const first = (await api.get(`${path}/parked?limit=2`)).body
  expect(first.items).toMatchObject([{ job_id: ids[0], reason: 'reason 0' }, { job_id: ids[1] }])
  const rest = (await api.get(`${path}/parked?after=${first.next_cursor}`)).body
  expect(rest).toMatchObject({ items: [{ job_id: ids[2] }], next_cursor: null })
  const event_ids = [first.items[1].event_id]
  expect(await at('parked/replay', { event_ids })).toMatchObject({
    status: 200,
    body: { count: 1 },
  })
  expect(jobsOf((await read()).items)).toEqual([ids[1]])
  expect((await at('parked/discard', { all: true })).body).toEqual({ count: 3 })
  expect((await api.get(`${path}/parked`)).body.items).toEqual([])
})
