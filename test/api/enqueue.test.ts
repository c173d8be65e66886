import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type TestApi, testApi } from './client.ts'

let api: TestApi
beforeAll(async () => {
  api = await testApi()
})
afterAll(() => api.stop())

describe('POST /jobs', () => {
  it('enqueues one job and says where it is', async () => {
    const reply = await api.post('/jobs', {
      type: 'email.send',
      payload: { to: 'a@b.c' },
      priority: 8,
    })
    expect(reply).toMatchObject({ status: 202, body: { id: expect.any(Number), created: true } })
    expect(reply.headers.get('location')).toBe(`/jobs/${reply.body.id}`)
    const { body } = await api.get(`/jobs/${reply.body.id}`)
    expect(body).toMatchObject({
      type: 'email.send',
      status: 'pending',
      payload: { to: 'a@b.c' },
      priority: 8,
    })
  })
})
