import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type TestApi, testApi } from './client.ts'

let api: TestApi
beforeAll(async () => {
  api = await testApi()
})
afterAll(() => api.stop())

async function enqueue(type: string, count = 1): Promise<number[]> {
  const { body } = await api.post(
    '/jobs',
    Array.from({ length: count }, () => ({ type })),
  )
  return body.jobs.map(({ id }: { id: number }) => id)
}

async function claim(type: string, max = 1, worker = 'w') {
  const { body } = await api.post('/worker/claim', { worker, types: [type], max })
  return body.jobs as { job_id: number; token: number }[]
}

async function attempt(type: string) {
  await enqueue(type)
  const [job] = await claim(type)
  if (job === undefined) throw new Error('nothing to claim')
  return { job_id: job.job_id, token: job.token }
}

const statusOf = async (id: number) => (await api.get(`/jobs/${id}`)).body.status

describe('a worker over HTTP', () => {
  it('registers, claims, works in rounds and says goodbye', async () => {
    const ids = await enqueue('round', 3)
    const { status, body } = await api.post('/worker/register', {
      name: 'remote',
      hostname: 'box',
      types: ['round'],
      ttl: '10 seconds',
      info: { language: 'curl' },
    })
    expect(status).toBe(201)
    const { worker_id } = body
    const first = await api.post('/worker/exchange', { worker_id, types: ['round'], max: 3 })
    const jobs = first.body.directives as { directive: string; job_id: number; token: number }[]
    expect(jobs.map(({ directive, job_id }) => [directive, job_id])).toEqual(
      ids.map((id) => ['run', id]),
    )
    const [good, bad, held] = jobs.map(({ job_id, token }) => ({ job_id, token }))
    const second = await api.post('/worker/exchange', {
      worker_id,
      completed: [{ ...good, result: { sent: true } }],
      failed: [{ ...bad, error: 'no such address', permanent: true, details: { smtp: 550 } }],
      running: [held],
    })
    expect(second.body.directives).toEqual([{ directive: 'dead_letter', ...bad }])
    expect((await api.get(`/jobs/${good?.job_id}`)).body.result).toEqual({ sent: true })
    expect(await statusOf(bad?.job_id ?? 0)).toBe('dead_letter')
    expect((await api.post('/worker/stop', { worker_id })).status).toBe(204)
    const late = await api.post('/worker/exchange', { worker_id, completed: [held] })
    expect(late).toMatchObject({ status: 409, body: { code: 'JE010' } })
  })

  it('claims nothing of a type that nobody has enqueued', async () => {
    expect(await claim('unheard-of')).toEqual([])
  })

  it('beats, and hears what became of its jobs', async () => {
    const held = await attempt('beat')
    const beat = (running: object[]) => api.post('/worker/heartbeat', { worker: 'w', running })
    expect((await beat([held])).body).toEqual({ directives: [] })
    await api.post(`/jobs/${held.job_id}/cancel`)
    expect((await beat([held])).body).toEqual({
      directives: [{ job_id: held.job_id, directive: 'cancel' }],
    })
    const stale = { ...held, token: held.token + 7 }
    expect((await beat([stale])).body.directives[0].directive).toBe('lost')
  })
})

describe('what a worker says of one attempt', () => {
  it('completes, fails and gives back', async () => {
    const done = await attempt('one')
    const completed = await api.post('/worker/complete', { ...done, result: 7 })
    expect(completed).toMatchObject({
      status: 200,
      body: { job_id: done.job_id, status: 'completed' },
    })
    const broken = await attempt('one')
    const failed = await api.post('/worker/fail', { ...broken, error: 'x', retry_in: '1 hour' })
    expect(failed).toMatchObject({ status: 200, body: { job_id: broken.job_id, verdict: 'retry' } })
    const unstarted = await attempt('one')
    const released = await api.post('/worker/release', unstarted)
    expect(released).toMatchObject({ status: 200, body: { status: 'pending' } })
    expect((await api.get(`/jobs/${unstarted.job_id}`)).body.attempts).toBe(0)
  })

  it('reports progress, records steps, steps aside', async () => {
    const held = await attempt('aside')
    expect((await api.post('/worker/progress', { ...held, value: { rows: 10 } })).status).toBe(204)
    expect((await api.get(`/jobs/${held.job_id}`)).body.progress).toEqual({ rows: 10 })
    const step = (value: unknown) => api.post('/worker/step', { ...held, name: 'charge', value })
    expect((await step({ id: 1 })).body).toEqual({ value: { id: 1 } })
    expect((await step({ id: 2 })).body).toEqual({ value: { id: 1 } })
    const reply = await api.post('/worker/suspend', { ...held, delay: '1 day', waits_for: 'reply' })
    expect(reply).toMatchObject({ status: 200, body: { status: 'waiting' } })
    expect(await statusOf(held.job_id)).toBe('waiting')
  })

  it.each([
    ['complete', {}],
    ['fail', { error: 'x' }],
    ['release', {}],
    ['progress', { value: 1 }],
    ['step', { name: 'a' }],
    ['suspend', {}],
  ])('%s refuses a stale token and a job that does not exist', async (verb, more) => {
    const { job_id, token } = await attempt('stale')
    const stale = await api.post(`/worker/${verb}`, { job_id, token: token + 1, ...more })
    expect(stale).toMatchObject({ status: 409, body: { code: 'JE001' } })
    const missing = await api.post(`/worker/${verb}`, { job_id: 999_999_999, token: 1, ...more })
    expect(missing).toMatchObject({ status: 404, body: { code: 'JE002' } })
    expect(await statusOf(job_id)).toBe('running')
  })

  it('is refused with a result beyond the limit', async () => {
    const held = await attempt('large')
    const reply = await api.post('/worker/complete', { ...held, result: 'x'.repeat(1_100_000) })
    expect(reply).toMatchObject({ status: 422, body: { code: 'JE006' } })
    const round = await api.post('/worker/exchange', {
      worker_id: (await api.post('/worker/register', { name: 'other' })).body.worker_id,
      completed: [{ ...held, result: 'x'.repeat(1_100_000) }],
    })
    expect(round).toMatchObject({ status: 422, body: { code: 'JE006' } })
    expect(await statusOf(held.job_id)).toBe('running')
  })
})

describe('what a worker says of many attempts', () => {
  it.each([
    ['complete', {}, 'accepted'],
    ['release', {}, 'accepted'],
    ['fail', { error: 'x' }, 'settled'],
  ])('%s takes the good ones and names the stale', async (verb, more, key) => {
    await enqueue(`many-${verb}`, 3)
    const held = await claim(`many-${verb}`, 3)
    const list = held.map(({ job_id, token }, index) => ({
      job_id,
      token: index === 1 ? token + 1 : token,
      ...more,
    }))
    const { status, body } = await api.post(`/worker/${verb}`, list)
    expect(status).toBe(200)
    expect(body[key]).toHaveLength(2)
    expect(body.refused).toEqual([{ job_id: held[1]?.job_id, token: (held[1]?.token ?? 0) + 1 }])
  })

  it('points at the one that is malformed', async () => {
    const list = [{ job_id: 1, token: 1 }, { job_id: 2 }]
    for (const verb of ['complete', 'release', 'fail']) {
      const reply = await api.post(`/worker/${verb}`, list)
      expect(reply).toMatchObject({ status: 400, body: { code: 'JE003', pointer: '#/1/token' } })
    }
  })
})

describe('a worker that says nonsense', () => {
  it.each([
    ['/worker/register', {}],
    ['/worker/register', { name: '' }],
    ['/worker/register', { name: 'x', ttl: '1 century' }],
    ['/worker/register', { name: 'x', ttl: 'soon' }],
    ['/worker/claim', { worker: 'w', types: 'all' }],
    ['/worker/claim', { worker: 'w', types: ['a'], max: -1 }],
    ['/worker/claim', { worker: 'w', types: ['a'], max: 1e6 }],
    ['/worker/claim', { worker: 'w\0', types: ['a'] }],
    ['/worker/exchange', { worker_id: 1e12 }],
    ['/worker/exchange', { worker_id: 1, complete: [] }],
    ['/worker/heartbeat', { worker: 'w', running: [{ job_id: 1 }] }],
    ['/worker/stop', {}],
  ])('%s %j is JE003', async (path, body) => {
    expect(await api.post(path, body)).toMatchObject({ status: 400, body: { code: 'JE003' } })
  })

  it('is told when it is unknown, or speaks another protocol', async () => {
    const beat = await api.post('/worker/heartbeat', { worker: 'never seen' })
    expect(beat).toMatchObject({ status: 409, body: { code: 'JE010' } })
    const bye = await api.post('/worker/stop', { worker_id: 999_999 })
    expect(bye).toMatchObject({ status: 404, body: { code: 'JE002' } })
    const newer = await api.post('/worker/register', { name: 'future', protocol: 2 })
    expect(newer).toMatchObject({ status: 503, body: { code: 'JE011' } })
  })
})
