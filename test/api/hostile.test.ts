import { request } from 'node:http'
import { connect } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { serveApi } from '../../src/api/server.ts'
import { type TestApi, testApi } from './client.ts'

let api: TestApi
beforeAll(async () => {
  api = await testApi()
})
afterAll(() => api.stop())

const JSON_TYPE = { 'content-type': 'application/json' }

async function jobs(): Promise<number> {
  const [row] = await api.database.db.query<{ count: number }>(
    'select count(*) from fencepost.jobs',
  )
  return row?.count ?? -1
}

/** Sends bytes as they are and gives what comes back, status line first. */
function raw(text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(api.server.port, '127.0.0.1', () => socket.write(text))
    let answer = ''
    socket.on('data', (data) => {
      answer += data
      socket.end()
    })
    socket.on('close', () => resolve(answer))
    socket.on('error', reject)
  })
}

describe('a body that is wrong', () => {
  it.each([
    ['cut off', '{"type": "x"'],
    ['empty', ' '],
    ['with a trailing comma', '{"type": "x",}'],
    ['that is no object', '7'],
    ['null', 'null'],
    ['a text', '"x"'],
    ['a number beyond all', '{"type": "x", "payload": 1e999}'],
    [
      'a whole number that would be rounded',
      '{"type": "x", "payload": {"id": 12345678901234567890}}',
    ],
  ])('%s is JE003', async (_, body) => {
    const reply = await api.send('POST', '/jobs', body)
    expect(reply).toMatchObject({ status: 400, body: { code: 'JE003' } })
  })

  it('keeps numbers that are exact, and digits in texts', async () => {
    const payload =
      '{"a":9007199254740991,"b":1e20,"c":"12345678901234567890","d":0.1234567890123456789}'
    const { status, body } = await api.send('POST', '/jobs', `{"type":"x","payload":${payload}}`)
    expect(status).toBe(202)
    expect((await api.get(`/jobs/${body.id}`)).body.payload).toEqual(JSON.parse(payload))
  })

  it('of other content, or of no declared content, is 415', async () => {
    for (const type of [
      'text/plain',
      'application/x-www-form-urlencoded',
      'application/jsonx',
      '',
    ]) {
      const reply = await api.send('POST', '/jobs', '{"type":"x"}', { 'content-type': type })
      expect(reply, type).toMatchObject({ status: 415, body: { code: 'JE003' } })
    }
    const reply = await api.send('POST', '/jobs', '{"type":"x"}', {
      'content-type': 'application/json; charset=utf-8',
    })
    expect(reply.status).toBe(202)
  })

  it('that is not UTF-8 is JE003, and not mended', async () => {
    const body = Buffer.from('{"type":"x","payload":"\xff\xfe"}', 'latin1')
    const response = await fetch(`${api.server.url}/jobs`, {
      method: 'POST',
      headers: JSON_TYPE,
      body,
    })
    expect(response.status).toBe(400)
  })

  it('nested without end is refused and brings nothing down', async () => {
    for (const depth of [5_000, 100_000, 1_000_000]) {
      const nested = `${'['.repeat(depth)}${']'.repeat(depth)}`
      const reply = await api.send('POST', '/jobs', `{"type":"deep","payload":${nested}}`)
      expect([202, 400, 422], String(depth)).toContain(reply.status)
    }
    expect((await api.get('/health')).status).toBe(200)
  })

  it('nested deeper than it could be sent is shown as far as it goes', async () => {
    const { db } = api.database
    const deep = `'{"near": 1, "deep": ' || repeat('[', 5000) || repeat(']', 5000) || '}'`
    const enqueue = `select fencepost.enqueue('abyss', (${deep})::jsonb) as id`
    const [row] = await db.query<{ id: number }>(enqueue)
    const id = row?.id
    expect(await api.get(`/jobs/${id}`)).toMatchObject({
      status: 200,
      body: { id, payload: { near: 1, deep: expect.any(Array) } },
    })
    expect((await api.get(`/jobs/${id}`)).text).toContain('nested deeper than 500 levels')
    expect(await api.get('/jobs?type=abyss')).toMatchObject({
      status: 200,
      body: { items: [{ id }] },
    })
  })
})

describe('a body that is too large', () => {
  const large = 10_000_000

  it('is refused with 413', async () => {
    const before = await jobs()
    const reply = await api.post('/jobs', { type: 'x', payload: 'a'.repeat(large) })
    expect(reply).toMatchObject({ status: 413, body: { code: 'JE006' } })
    expect(await jobs()).toBe(before)
  })

  it('is refused by its announced length, before it is sent', async () => {
    const answer = await raw(
      `POST /jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${large}\r\n\r\n{`,
    )
    expect(answer).toMatch(/^HTTP\/1\.1 413 /)
  })

  it('is refused while it streams, long before its end', async () => {
    let sent = 0
    const status = await new Promise<number | undefined>((resolve, reject) => {
      const chunk = Buffer.alloc(65_536, 'a')
      const call = request(
        `${api.server.url}/jobs`,
        { method: 'POST', headers: { ...JSON_TYPE, 'transfer-encoding': 'chunked' } },
        (response) => {
          resolve(response.statusCode)
          call.destroy()
        },
      )
      call.on('error', (error: NodeJS.ErrnoException) => {
        if (!['ECONNRESET', 'EPIPE'].includes(error.code ?? '')) reject(error)
      })
      call.write('{"type":"x","payload":"')
      const more = () => {
        if (call.destroyed || sent > 100_000_000) return
        sent += chunk.length
        call.write(chunk, () => setImmediate(more))
      }
      more()
    })
    expect(status).toBe(413)
    expect(sent).toBeLessThan(100_000_000)
  })

  it('may be larger or smaller where the server is told so', async () => {
    await using small = await serveApi({ db: api.database.db, port: 0, bodyLimit: 100 })
    const body = JSON.stringify({ type: 'x', payload: 'a'.repeat(100) })
    const response = await fetch(`${small.url}/jobs`, { method: 'POST', headers: JSON_TYPE, body })
    expect(response.status).toBe(413)
  })
})

describe('a request from elsewhere', () => {
  it.each([
    ['another origin', { origin: 'https://evil.example' }],
    ['an origin without a name', { origin: 'null' }],
    ['another site', { 'sec-fetch-site': 'cross-site' }],
  ])('is refused: %s', async (_, headers) => {
    const reply = await api.post('/jobs/1/cancel', undefined, headers as Record<string, string>)
    expect(reply).toMatchObject({ status: 403, body: { code: 'JE009' } })
  })

  it('is refused under a name that somebody else may have made', async () => {
    const answer = await raw('GET /jobs HTTP/1.1\r\nhost: evil.example\r\n\r\n')
    expect(answer).toMatch(/^HTTP\/1\.1 403 /)
    expect(answer).toContain('JE009')
    expect(await raw('GET /health HTTP/1.1\r\nhost: localhost:80\r\n\r\n')).toMatch(
      /^HTTP\/1\.1 200 /,
    )
  })

  it('cannot be served at all on an address that others reach', async () => {
    const error = await serveApi({ db: api.database.db, port: 0, host: '0.0.0.0' }).catch((e) => e)
    expect(error).toMatchObject({ code: 'JE009' })
  })
})

describe('a route that does not exist', () => {
  it('is a problem document', async () => {
    for (const path of [
      '/',
      '/nothing',
      '/api',
      '/jobs/1/2/3',
      '/JOBS',
      '/jobs/',
      '/%00',
      '/%zz',
    ]) {
      const reply = await api.get(path)
      expect(reply, path).toMatchObject({ status: 404, body: { code: 'JE002' } })
    }
  })

  it('names the methods of a path that has others', async () => {
    const reply = await api.send('PUT', '/jobs/7')
    expect(reply).toMatchObject({ status: 405, body: { code: 'JE003', status: 405 } })
    expect(reply.headers.get('allow')?.split(', ').sort()).toEqual(['DELETE', 'GET', 'PATCH'])
    expect((await api.send('DELETE', '/api/jobs')).headers.get('allow')).toBe('POST, GET')
  })
})

it('says what is not HTTP at all', async () => {
  expect(await raw('nonsense\r\n\r\n')).toMatch(/^HTTP\/1\.1 400 /)
})
