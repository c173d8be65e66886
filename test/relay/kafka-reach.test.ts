import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { expect, it } from 'vitest'
import { whyUnreachable } from '../../src/relay/kafka/reach.ts'

it('is content with one broker that takes connections', async () => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const brokers = ['127.0.0.1:1', `127.0.0.1:${port}`]
  expect(await whyUnreachable(brokers, new AbortController().signal)).toBeUndefined()
  server.close()
})

it('tells why each is not reached, also one that was waited for in vain', async () => {
  const { signal } = new AbortController()
  expect(await whyUnreachable(['127.0.0.1:1', 'nowhere.invalid'], signal)).toMatch(
    /^127\.0\.0\.1:1: ECONNREFUSED; nowhere\.invalid: E[A-Z_]+$/,
  )
  expect(await whyUnreachable(['127.0.0.1:1'], AbortSignal.abort())).toBe('127.0.0.1:1: no answer')
})
