import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type TestApi, testApi } from './client.ts'

let api: TestApi
beforeAll(async () => {
  api = await testApi()
})
afterAll(() => api.stop())

const countOf = async (type: string) => {
  const [row] = await api.database.db.query<{ count: number }>(
    'select count(*) from fencepost.jobs where type = $1',
    [type],
  )
  return row?.count
}

describe('POST /jobs with one job', () => {
  it('enqueues it and says where it is', async () => {
    const payload = { to: 'ada@example.org', nested: [1, null, { ü: '€' }] }
    const reply = await api.post('/jobs', { type: 'mail', payload, priority: 8, max_attempts: 2 })
    expect(reply).toMatchObject({ status: 202, body: { id: expect.any(Number), created: true } })
    expect(reply.headers.get('location')).toBe(`/jobs/${reply.body.id}`)
    const { body } = await api.get(`/jobs/${reply.body.id}`)
    expect(body).toMatchObject({ type: 'mail', status: 'pending', priority: 8, payload })
    expect(body.max_attempts).toBe(2)
  })

  it('is there under /api too', async () => {
    const reply = await api.post('/api/jobs', { type: 'mail' })
    expect(reply.status).toBe(202)
    expect((await api.get(`/api/jobs/${reply.body.id}`)).body.type).toBe('mail')
  })

  it('takes a delay, a time, headers and a timeout', async () => {
    const { body } = await api.post('/jobs', {
      type: 'later',
      delay: '10 minutes',
      headers: { traceparent: '00-ab' },
      timeout: '30s',
    })
    const { body: job } = await api.get(`/jobs/${body.id}`)
    const wait = Date.parse(job.available_at) - Date.parse(job.created_at)
    expect(wait).toBe(600_000)
    expect(job.headers).toEqual({ traceparent: '00-ab' })
    const at = await api.post('/jobs', { type: 'later', run_at: '2099-01-01T00:00:00Z' })
    const { body: timed } = await api.get(`/jobs/${at.body.id}`)
    expect(timed.available_at).toBe('2099-01-01T00:00:00.000Z')
  })

  it.each([
    ['a negative priority', { type: 'x', priority: -1 }, /priority must be a whole number/],
    ['a priority that is no number', { type: 'x', priority: 'high' }, /^priority: .*number/],
    ['a fraction', { type: 'x', priority: 1.5 }, /whole number|integer/],
    ['no type', { payload: {} }, /^type: /],
    ['a malformed type', { type: 'a b' }, /must be a name/],
    ['a delay that is none', { type: 'x', delay: 'soon' }, /interval/],
    ['a time that is none', { type: 'x', run_at: 'tomorrow-ish' }, /timestamp|date/],
    ['a delay and a time', { type: 'x', delay: '1s', run_at: '2099-01-01T00:00:00Z' }, /not both/],
    ['no attempts', { type: 'x', max_attempts: 0 }, /max_attempts/],
    ['headers that are a list', { type: 'x', headers: [] }, /^headers: /],
    ['a NUL in the payload', { type: 'x', payload: { a: 'b\0' } }, /NUL character/],
    ['a NUL in the type', { type: 'x\0' }, /NUL character/],
    ['half a surrogate pair', { type: 'x', payload: '\ud800' }, /surrogate/],
  ])('refuses %s', async (_, job, detail) => {
    const reply = await api.post('/jobs', job)
    expect(reply).toMatchObject({ status: 400, body: { code: 'JE003', type: '/problems/JE003' } })
    expect(reply.body.detail).toMatch(detail)
    expect(reply.headers.get('content-type')).toBe('application/problem+json')
  })

  it('says what an unknown field was probably meant to be', async () => {
    const reply = await api.post('/jobs', { type: 'x', idempotencyKey: 'a' })
    expect(reply.status).toBe(400)
    expect(reply.body).toMatchObject({ code: 'JE003', pointer: '#' })
    expect(reply.body.hint).toMatch(/^Did you mean idempotency_key\? Known: type, payload/)
  })

  it('refuses a payload beyond the limit of its type', async () => {
    const reply = await api.post('/jobs', { type: 'large', payload: 'x'.repeat(1_100_000) })
    expect(reply).toMatchObject({ status: 422, body: { code: 'JE006' } })
    expect(await countOf('large')).toBe(0)
  })

  it('refuses a type that is closed, and says when to come back', async () => {
    await api.send('PATCH', '/types/closed', { accept: false })
    const reply = await api.post('/jobs', { type: 'closed' })
    expect(reply).toMatchObject({ status: 429, body: { code: 'JE007' } })
    expect(Number(reply.headers.get('retry-after'))).toBeGreaterThan(0)
  })
})

describe('an idempotency key', () => {
  it('gives the same job, in the header or in the body', async () => {
    const job = { type: 'once', payload: { n: 1 } }
    const first = await api.post('/jobs', job, { 'idempotency-key': 'welcome:42' })
    const again = await api.post('/jobs', job, { 'idempotency-key': 'welcome:42' })
    const body = await api.post('/jobs', { ...job, idempotency_key: 'welcome:42' })
    expect(first).toMatchObject({ status: 202, body: { created: true } })
    for (const reply of [again, body]) {
      expect(reply).toMatchObject({ status: 200, body: { id: first.body.id, created: false } })
    }
  })

  it('is refused with another payload', async () => {
    await api.post('/jobs', { type: 'once', payload: 1 }, { 'idempotency-key': 'k' })
    const reply = await api.post('/jobs', { type: 'once', payload: 2 }, { 'idempotency-key': 'k' })
    expect(reply).toMatchObject({ status: 422, body: { code: 'JE005' } })
    expect(reply.body.detail).not.toContain('of the list')
  })

  it('is refused when header and body differ, and for a list', async () => {
    const headers = { 'idempotency-key': 'a' }
    const both = await api.post('/jobs', { type: 'once', idempotency_key: 'b' }, headers)
    expect(both).toMatchObject({ status: 400, body: { code: 'JE003' } })
    const list = await api.post('/jobs', [{ type: 'once' }], headers)
    expect(list).toMatchObject({ status: 400, body: { code: 'JE003' } })
  })
})

describe('POST /jobs with a list', () => {
  it('enqueues all, in order', async () => {
    const key = { idempotency_key: 'list-2' }
    await api.post('/jobs', { type: 'list', payload: 2, ...key })
    const reply = await api.post('/jobs', [
      { type: 'list', payload: 1 },
      { type: 'list', payload: 2, ...key },
      { type: 'other' },
    ])
    expect(reply.status).toBe(202)
    expect(reply.body.jobs.map((each: { created: boolean }) => each.created)).toEqual([
      true,
      false,
      true,
    ])
    expect((await api.post('/jobs', [{ type: 'list', payload: 2, ...key }])).status).toBe(200)
    expect((await api.post('/jobs', [])).body).toEqual({ jobs: [] })
  })

  it('enqueues nothing when one is refused, and points at it', async () => {
    const [before] = [await countOf('list')]
    const byEngine = await api.post('/jobs', [{ type: 'list' }, { type: 'list', priority: 10 }])
    expect(byEngine).toMatchObject({ status: 400, body: { code: 'JE003', pointer: '#/1' } })
    expect(byEngine.body.detail).toContain('job 2 of the list')
    const bySchema = await api.post('/jobs', [{ type: 'list' }, { type: 'list' }, { type: 7 }])
    expect(bySchema).toMatchObject({ status: 400, body: { code: 'JE003', pointer: '#/2/type' } })
    const byKind = await api.post('/jobs', [{ type: 'list' }, 'list'])
    expect(byKind).toMatchObject({ status: 400, body: { code: 'JE003', pointer: '#/1' } })
    expect(await countOf('list')).toBe(before)
  })
})
