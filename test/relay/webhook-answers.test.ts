import type { ServerResponse } from 'node:http'
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
