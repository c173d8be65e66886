import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type TestApi, testApi } from './client.ts'

let api: TestApi
beforeAll(async () => {
  api = await testApi()
})
afterAll(() => api.stop())

const URL = 'https://example.com/hooks'
const code = (status: number, code: string) => ({ status, body: { code } })
const given = `whsec_${Buffer.alloc(24, 7).toString('base64')}`

describe('a webhook', () => {
  it('is made, shown, changed, given a new secret and removed', async () => {
    const made = await api.post('/webhooks', {
      name: 'billing',
      url: URL,
      filter: { kinds: ['run.*'] },
    })
    expect(made).toMatchObject({
      status: 201,
      body: { name: 'billing', secret: expect.stringMatching(/^whsec_/) },
    })
    const shown = await api.get('/webhooks/billing')
    expect(shown).toMatchObject({
      status: 200,
      body: { url: URL, kinds: ['run.*'], paused: false, max_attempts: 12 },
    })
    expect(shown.text).not.toContain('whsec_')
    expect((await api.get('/webhooks')).body).toEqual({ items: [shown.body] })

    const change = { paused: true, reason: 'moving', timeout: '5 seconds', filter: {} }
    expect(await api.send('PATCH', '/webhooks/billing', change)).toMatchObject({
      status: 200,
      body: { paused: true, paused_reason: 'moving', timeout: '00:00:05', kinds: null },
    })
    const rotated = await api.post('/webhooks/billing/rotate-secret', {
      keep_old: '1 hour',
      secret: given,
    })
    expect(rotated).toMatchObject({ status: 200, body: { name: 'billing', secret: given } })
    expect((await api.post('/webhooks/billing/rotate-secret')).body.secret).not.toBe(given)
    expect(await api.send('DELETE', '/webhooks/billing')).toMatchObject({ status: 204 })
  })

  it('that makes no sense, or is there, is refused', async () => {
    await api.post('/webhooks', { name: 'here', url: URL })
    expect(await api.post('/webhooks', { name: 'here', url: URL })).toMatchObject(
      code(409, 'JE004'),
    )
    expect(await api.post('/webhooks', { name: 'x', url: 'nowhere' })).toMatchObject(
      code(400, 'JE003'),
    )
    const early = { name: 'x', url: URL, start: '2999-01-01' }
    expect(await api.post('/webhooks', early)).toMatchObject(code(400, 'JE003'))
    expect(await api.send('PATCH', '/webhooks/here', { max_running: 0 })).toMatchObject(
      code(400, 'JE003'),
    )
    expect(await api.send('PATCH', '/webhooks/here', { pause: true })).toMatchObject(
      code(400, 'JE003'),
    )
    expect(await api.get('/webhooks?x=1')).toMatchObject(code(400, 'JE003'))
    await api.post('/webhooks/here/rotate-secret', { secret: given })
    const same = await api.post('/webhooks/here/rotate-secret', { secret: given })
    expect(same).toMatchObject(code(409, 'JE004'))
    expect(same.text).not.toContain(given)
  })

  it('that does not exist is JE002', async () => {
    const replies = await Promise.all([
      api.get('/webhooks/nobody'),
      api.send('DELETE', '/webhooks/nobody'),
      api.send('PATCH', '/webhooks/nobody', { paused: true }),
      api.post('/webhooks/nobody/rotate-secret'),
    ])
    for (const reply of replies) expect(reply).toMatchObject(code(404, 'JE002'))
  })
})
