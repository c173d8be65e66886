import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { claim, fail } from '../../src/database/engine.ts'
import { type TestApi, testApi } from './client.ts'

let api: TestApi
beforeAll(async () => {
  api = await testApi()
})
afterAll(() => api.stop())

const MISSING = 999_999_999

async function enqueued(type: string, more: object = {}): Promise<number> {
  return (await api.post('/jobs', { type, ...more })).body.id
}

async function claimed(type: string, worker = 'w'): Promise<{ job_id: number; token: number }> {
  const [job] = await claim(api.database.db, { worker, types: [type] })
  if (job === undefined) throw new Error(`nothing to claim of ${type}`)
  return job
}

describe('GET /jobs/{id}', () => {
  it('shows a running job with its lease, attempts used and events', async () => {
    const id = await enqueued('shown', { payload: { a: 1 } })
    const first = await claimed('shown')
    await fail(api.database.db, id, first.token, { error: 'first try', retry_in: '0' })
    const second = await claimed('shown')
    const { status, body } = await api.get(`/jobs/${id}`)
    expect(status).toBe(200)
    expect(body).toMatchObject({
      id,
      status: 'running',
      attempts: 2,
      last_error: 'first try',
      worker: 'w',
      lease: { job_id: id, token: second.token, worker: 'w', attempt: 2 },
    })
    expect(body.leased_until).toBe(body.lease.leased_until)
    expect(body.events.map((each: { kind: string }) => each.kind)).toEqual([
      'job.started',
      'job.retry_scheduled',
      'job.started',
      'job.enqueued',
    ])
  })

  it.each(['/jobs/{id}', '/jobs/{id}/attempts', '/jobs/{id}/events', '/jobs/{id}/explain'])(
    'GET %s knows no job that does not exist, and no id that is none',
    async (path) => {
      const missing = await api.get(path.replace('{id}', String(MISSING)))
      expect(missing).toMatchObject({ status: 404, body: { code: 'JE002' } })
      for (const id of ['abc', '-1', '1.5', '1e3', '99999999999999999999', '%00', 'null']) {
        const reply = await api.get(path.replace('{id}', id))
        expect(reply, id).toMatchObject({ status: 400, body: { code: 'JE003' } })
      }
    },
  )
})

describe('GET /jobs/{id}/attempts', () => {
  it('lists them, newest first', async () => {
    const id = await enqueued('tried')
    const first = await claimed('tried')
    await fail(api.database.db, id, first.token, { error: 'no luck', retry_in: '0' })
    await claimed('tried')
    const { body } = await api.get(`/jobs/${id}/attempts`)
    expect(body.items).toMatchObject([
      { attempt: 2, token: 2, outcome: null, finished_at: null },
      { attempt: 1, token: 1, outcome: 'failed', error: 'no luck', worker: 'w' },
    ])
  })
})

describe('GET /jobs/{id}/events', () => {
  it('pages through the history, each event once', async () => {
    const id = await enqueued('historic', { max_attempts: 9 })
    for (let attempt = 1; attempt <= 4; attempt++) {
      const { token } = await claimed('historic')
      await fail(api.database.db, id, token, { error: `${attempt}`, retry_in: '0' })
    }
    const whole = (await api.get(`/jobs/${id}/events`)).body
    expect(whole.next_cursor).toBeNull()
    const paged: unknown[] = []
    let after = ''
    do {
      const { body } = await api.get(`/jobs/${id}/events?limit=2${after && `&after=${after}`}`)
      expect(body.items.length).toBeLessThanOrEqual(2)
      paged.push(...body.items)
      after = body.next_cursor ?? ''
    } while (after !== '')
    expect(paged).toEqual(whole.items)
    expect(paged).toHaveLength(9)
  })

  it('refuses a cursor that it did not give', async () => {
    const id = await enqueued('historic')
    for (const after of ['x', 'e30', Buffer.from('[1,[1,"2",3]]').toString('base64url')]) {
      const reply = await api.get(`/jobs/${id}/events?after=${after}`)
      expect(reply).toMatchObject({ status: 400, body: { code: 'JE003' } })
    }
  })
})

describe('GET /jobs/{id}/explain', () => {
  it('says that no worker serves the type', async () => {
    const id = await enqueued('nobody')
    const { status, body } = await api.get(`/jobs/${id}/explain`)
    expect(status).toBe(200)
    expect(body.items.map((each: { reason: string }) => each.reason)).toContain('no_worker')
  })
})

describe('GET /jobs', () => {
  it('filters and pages, newest first', async () => {
    const ids: number[] = []
    for (let n = 0; n < 5; n++) ids.push(await enqueued('listed', { priority: n % 2 }))
    const found: number[] = []
    let after = ''
    do {
      const { body } = await api.get(`/jobs?type=listed&limit=2${after && `&after=${after}`}`)
      found.push(...body.items.map(({ id }: { id: number }) => id))
      after = body.next_cursor ?? ''
    } while (after !== '')
    expect(found).toEqual(ids.toReversed())
    const { body } = await api.get('/jobs?type=listed&priority=1&status=pending')
    expect(body.items).toHaveLength(2)
    expect(body.items[0]).not.toHaveProperty('cut')
  })

  it('finds the job of an idempotency key, and what a worker runs', async () => {
    const id = await enqueued('keyed', { idempotency_key: 'find me' })
    expect((await api.get('/jobs?idempotency_key=find%20me')).body.items[0].id).toBe(id)
    await claimed('keyed', 'finder')
    expect((await api.get('/jobs?worker=finder')).body.items[0].id).toBe(id)
  })

  it.each([
    ['an unknown option', 'lmit=5', /^the query: unknown query option "lmit"/],
    ['an unknown status', 'status=done', /status/],
    ['a priority that is none', 'priority=high', /priority/],
    ['a limit that is none', 'limit=many', /^limit/],
    ['a limit beyond the most', 'limit=201', /from 1 to 200/],
    ['a limit of nothing', 'limit=0', /from 1 to 200/],
    ['a time that is none', 'created_after=never', /created_after/],
    ['an option twice', 'type=a&type=b', /^type/],
    ['a NUL', 'type=%00', /NUL/],
    ['a cursor of another list', 'after=WzEsInMiXQ', /cursor/],
  ])('refuses %s', async (_, query, detail) => {
    const reply = await api.get(`/jobs?${query}`)
    expect(reply).toMatchObject({ status: 400, body: { code: 'JE003' } })
    expect(reply.body.detail).toMatch(detail)
  })

  it('says which option was probably meant', async () => {
    expect((await api.get('/jobs?statsu=pending')).body.hint).toMatch(/^Did you mean status\?/)
  })
})
