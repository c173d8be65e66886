import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { networkInterfaces } from 'node:os'
import * as kafka from '@platformatic/kafka'
import { expect, it } from 'vitest'
import { type Broker, brokerOf } from '../../src/relay/kafka/broker.ts'
import { whyUnreachable } from '../../src/relay/kafka/reach.ts'
import { Sender } from '../../src/relay/kafka/sender.ts'

const broker = (text: string) => brokerOf(text) as Broker

it.each([
  ['kafka-1', { host: 'kafka-1', port: 9092 }],
  ['kafka-1:65535', { host: 'kafka-1', port: 65_535 }],
  ['[::1]', { host: '::1', port: 9092 }],
  ['[fe80::1]:9093', { host: 'fe80::1', port: 9093 }],
  ['', undefined],
  ['a:0', undefined],
  ['a:65536', undefined],
  ['a:', undefined],
  ['::1', undefined],
  ['[a]:1', undefined],
  ['http://a:1', undefined],
])('the broker %j is %o', (text, found) => {
  expect(brokerOf(text)).toEqual(found)
})

it('is content with one broker that takes connections', async () => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const brokers = [broker('127.0.0.1:1'), broker(`127.0.0.1:${port}`)]
  expect(await whyUnreachable(brokers, new AbortController().signal)).toBeUndefined()
  server.close()
})

it('tells why each is not reached, also one that was waited for in vain', async () => {
  const { signal } = new AbortController()
  expect(await whyUnreachable([broker('127.0.0.1:1'), broker('nowhere.invalid')], signal)).toMatch(
    /^127\.0\.0\.1:1: ECONNREFUSED; nowhere\.invalid:9092: E[A-Z_]+$/,
  )
  expect(await whyUnreachable([broker('127.0.0.1:1')], AbortSignal.abort())).toBe(
    '127.0.0.1:1: no answer',
  )
})

const hasIpv6 = Object.values(networkInterfaces()).some((each) =>
  each?.some(({ address }) => address === '::1'),
)
it.skipIf(!hasIpv6)('a sender connects to an address of IPv6', async () => {
  const server = createServer((socket) => socket.destroy()).listen(0, '::1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const brokers = [broker(`[::1]:${port}`)]
  const sender = new Sender(kafka, { brokers, clientId: 'c', timeout: 2_000, client: {} })
  const connected = once(server, 'connection')
  const message = {
    topic: 't',
    key: Buffer.from('k'),
    value: Buffer.from('v'),
    headers: new Map(),
    timestamp: 0n,
  }
  const sent = sender.send([message], new AbortController().signal)
  await Promise.all([connected, expect(sent).rejects.toThrow()])
  server.close()
})
