import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { claim, complete, fail, suspend } from '../../src/database/engine.ts'
import { type TestApi, testApi } from './client.ts'

let api: TestApi
beforeAll(async () => {
  api = await testApi()
})
afterAll(() => api.stop())

const MISSING = 999_999_999

async function enqueued(type: string): Promise<number> {
  return (await api.post('/jobs', { type })).body.id
}

async function running(type: string): Promise<{ id: number; token: number }> {
  const id = await enqueued(type)
  const [job] = await claim(api.database.db, { worker: 'w', types: [type] })
  return { id, token: job?.token ?? 0 }
}

async function dead(type: string): Promise<number> {
  const { id, token } = await running(type)
  await fail(api.database.db, id, token, { error: 'broken', permanent: true })
  return id
}

describe('cancel', () => {
  it('ends a job that waits at once, by POST or DELETE', async () => {
    const posted = await enqueued('c')
    const reply = await api.post(`/jobs/${posted}/cancel`, { reason: 'not needed' })
    expect(reply).toMatchObject({ status: 200, body: { id: posted, status: 'cancelled' } })
    const { body } = await api.get(`/jobs/${posted}`)
    expect(body.events[0]).toMatchObject({ kind: 'job.cancelled', data: { reason: 'not needed' } })
    const deleted = await enqueued('c')
    expect((await api.send('DELETE', `/jobs/${deleted}?reason=old`)).status).toBe(200)
    const bare = await enqueued('c')
    expect((await api.post(`/jobs/${bare}/cancel`)).status).toBe(200)
  })

  it('asks a running job to stop', async () => {
    const { id } = await running('c2')
    for (let time = 1; time <= 2; time++) {
      const reply = await api.post(`/jobs/${id}/cancel`)
      expect(reply).toMatchObject({ status: 202, body: { id, cancel_requested: true } })
    }
  })

  it('is refused for a job that has ended, and for none', async () => {
    const { id, token } = await running('c3')
    await complete(api.database.db, id, token)
    expect(await api.post(`/jobs/${id}/cancel`)).toMatchObject({
      status: 409,
      body: { code: 'JE004' },
    })
    expect(await api.send('DELETE', `/jobs/${id}`)).toMatchObject({ status: 409 })
    expect(await api.post(`/jobs/${MISSING}/cancel`)).toMatchObject({
      status: 404,
      body: { code: 'JE002' },
    })
    expect(await api.send('DELETE', `/jobs/${MISSING}`)).toMatchObject({ status: 404 })
    expect(await api.post('/jobs/x/cancel')).toMatchObject({ status: 400, body: { code: 'JE003' } })
  })
})

describe('retry', () => {
  it('returns a dead letter to work', async () => {
    const id = await dead('r')
    const reply = await api.post(`/jobs/${id}/retry`)
    expect(reply).toMatchObject({ status: 202, body: { id, status: 'pending' } })
    expect((await api.get(`/jobs/${id}`)).body).toMatchObject({ status: 'pending', attempts: 0 })
  })

  it('is refused for what is not dead', async () => {
    const id = await enqueued('r')
    expect(await api.post(`/jobs/${id}/retry`)).toMatchObject({
      status: 409,
      body: { code: 'JE004' },
    })
    expect(await api.post(`/jobs/${MISSING}/retry`)).toMatchObject({ status: 404 })
    expect(await api.post(`/jobs/${id}/retry`, { force: true })).toMatchObject({ status: 400 })
  })
})

describe('resume', () => {
  it('brings a suspended job back with data', async () => {
    const { id, token } = await running('s')
    await suspend(api.database.db, id, token, { waits_for: 'payment' })
    const reply = await api.post(`/jobs/${id}/resume`, { data: { paid: true } })
    expect(reply).toMatchObject({ status: 202, body: { id, status: 'pending' } })
    expect(await api.post(`/jobs/${id}/resume`)).toMatchObject({
      status: 409,
      body: { code: 'JE004' },
    })
    expect(await api.post(`/jobs/${MISSING}/resume`)).toMatchObject({ status: 404 })
  })
})

describe('PATCH /jobs/{id}', () => {
  it('gives a waiting job another priority', async () => {
    const id = await enqueued('p')
    const reply = await api.send('PATCH', `/jobs/${id}`, { priority: 9 })
    expect(reply).toMatchObject({ status: 200, body: { id, priority: 9 } })
    expect((await api.get(`/jobs/${id}`)).body.priority).toBe(9)
  })

  it('refuses what makes no sense', async () => {
    const id = await enqueued('p')
    for (const body of [{ priority: 10 }, { priority: -1 }, { priority: 'x' }, {}, { prio: 1 }]) {
      const reply = await api.send('PATCH', `/jobs/${id}`, body)
      expect(reply, JSON.stringify(body)).toMatchObject({ status: 400, body: { code: 'JE003' } })
    }
    expect(await api.send('PATCH', `/jobs/${MISSING}`, { priority: 1 })).toMatchObject({
      status: 404,
    })
    const { id: busy } = await running('p2')
    expect(await api.send('PATCH', `/jobs/${busy}`, { priority: 1 })).toMatchObject({ status: 409 })
  })
})

describe('POST /jobs/{id}/heartbeat', () => {
  it('keeps the lease alive, whoever is named', async () => {
    const { id, token } = await running('h')
    for (const who of [{}, { worker: 'w' }]) {
      const reply = await api.post(`/jobs/${id}/heartbeat`, { token, ...who })
      expect(reply).toMatchObject({ status: 200, body: { id, token, directive: null } })
      expect(Date.parse(reply.body.leased_until)).toBeGreaterThan(Date.now())
    }
  })

  it('says that a handler must stop', async () => {
    const { id, token } = await running('h2')
    await api.post(`/jobs/${id}/cancel`)
    const reply = await api.post(`/jobs/${id}/heartbeat`, { token })
    expect(reply).toMatchObject({ status: 200, body: { directive: 'cancel' } })
  })

  it('refuses a stale token, an ended job, an unknown worker and no job', async () => {
    const { id, token } = await running('h3')
    const stale = await api.post(`/jobs/${id}/heartbeat`, { token: token + 1 })
    expect(stale).toMatchObject({ status: 409, body: { code: 'JE001' } })
    const unknown = await api.post(`/jobs/${id}/heartbeat`, { token, worker: 'nobody' })
    expect(unknown).toMatchObject({ status: 409, body: { code: 'JE010' } })
    await complete(api.database.db, id, token)
    const ended = await api.post(`/jobs/${id}/heartbeat`, { token })
    expect(ended).toMatchObject({ status: 409, body: { code: 'JE001' } })
    const none = await api.post(`/jobs/${MISSING}/heartbeat`, { token: 1 })
    expect(none).toMatchObject({ status: 404, body: { code: 'JE002' } })
    expect(await api.post(`/jobs/${id}/heartbeat`, {})).toMatchObject({ status: 400 })
  })
})
