import type { ServerResponse } from 'node:http'
import { gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { one } from '../support/sql.ts'
import { Endpoint } from './endpoint.ts'
import { serving } from './serving.ts'

const { db, webhook, relaying, ended } = serving()

describe('a delivery whose answer does not end', () => {
  const begin = (status: number, text: string) => (response: ServerResponse) =>
    void response.writeHead(status).write(text)

  it('is delivered, when the status says so', async () => {
    await using endpoint = await Endpoint.open(begin(200, 'we got it, and '), (response) => {
      response.writeHead(200, { 'content-length': '1000' }).write('we got it')
      setImmediate(() => response.destroy())
    })
    await using _ = relaying()
    const made = await webhook(endpoint.url)
    // shorter than the body would take
    await made.configure(`timeout => '1 second'`)
    await made.tell()
    await made.tell()
    const delivered = { outcome: 'completed', attempt: 1 }
    await expect.poll(() => ended(made.name)).toMatchObject([delivered, delivered])
    expect(endpoint.hits).toHaveLength(2)
  })

  it('is refused, when the status says so, with as much of the reason as came soon', async () => {
    await using endpoint = await Endpoint.open(begin(500, 'no luck, because '))
    await using _ = relaying()
    const made = await webhook(endpoint.url)
    await made.tell()
    await expect
      .poll(() => ended(made.name), { timeout: 10_000 })
      .toMatchObject([{ outcome: 'failed', error: 'the endpoint answered 500: no luck, because' }])
    expect(ended(made.name)[0]?.duration_ms).toBeLessThan(10_000)
    await one(db(), 'select fencepost.drop_webhook($1)', [made.name])
  })
})

describe('a delivery without an answer that means anything', () => {
  it('tells how long it waited', async () => {
    await using endpoint = await Endpoint.open()
    endpoint.otherwise = () => {} // takes requests, and never answers
    await using _ = relaying()
    const made = await webhook(endpoint.url)
    await made.configure(`timeout => '1 second'`)
    await made.tell()
    await expect
      .poll(() => ended(made.name), { timeout: 10_000 })
      .toMatchObject([{ outcome: 'timed_out', error: 'no answer within 1 s' }])
    await one(db(), 'select fencepost.drop_webhook($1)', [made.name])
  })

  it('tells that the endpoint wants another protocol', async () => {
    await using endpoint = await Endpoint.open((response) => {
      response.socket?.write(
        'HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n',
      )
    })
    await using _ = relaying()
    const made = await webhook(endpoint.url)
    await made.tell()
    await expect
      .poll(() => ended(made.name))
      .toMatchObject([{ outcome: 'failed', error: 'the endpoint answered 101' }])
    await one(db(), 'select fencepost.drop_webhook($1)', [made.name])
  })

  it('tells no more than the status, when what explains it is no text', async () => {
    const zipped = gzipSync('the database is down')
    await using endpoint = await Endpoint.open((response) => {
      response.writeHead(500, { 'content-encoding': 'gzip' }).end(zipped)
    })
    await using _ = relaying()
    const made = await webhook(endpoint.url)
    await made.tell()
    await expect
      .poll(() => ended(made.name))
      .toMatchObject([{ outcome: 'failed', error: 'the endpoint answered 500' }])
    expect(endpoint.hits).toMatchObject([{ headers: { 'accept-encoding': 'identity' } }])
    await one(db(), 'select fencepost.drop_webhook($1)', [made.name])
  })
})
