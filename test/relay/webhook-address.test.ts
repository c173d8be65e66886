import { describe, expect, it } from 'vitest'
import { isPublicAddress } from '../../src/relay/webhook/address.ts'
import { ForbiddenEndpointError, post } from '../../src/relay/webhook/post.ts'
import { Endpoint } from './endpoint.ts'

describe('an address is public', () => {
  it.each([
    '8.8.8.8',
    '1.1.1.1',
    '172.15.255.255',
    '172.32.0.0',
    '100.63.255.255',
    '100.128.0.0',
    '169.253.255.255',
    '223.255.255.255',
    '2606:4700:4700::1111',
    '2a00:1450:4001:81b::200e',
    '::ffff:8.8.8.8',
    '64:ff9b::808:808',
  ])('%s', (address) => {
    expect(isPublicAddress(address)).toBe(true)
  })
})

describe('an address is not', () => {
  it.each([
    '0.0.0.0',
    '10.1.2.3',
    '100.64.0.1',
    '127.0.0.1',
    '127.255.255.255',
    '168.63.129.16', // the same, at Azure
    '169.254.169.254', // where clouds keep credentials
    '172.16.0.1',
    '172.31.255.255',
    '192.0.0.192',
    '192.0.2.1',
    '192.168.1.1',
    '198.19.0.1',
    '203.0.113.9',
    '224.0.0.1',
    '255.255.255.255',
    '::',
    '::1',
    '::127.0.0.1',
    '::ffff:127.0.0.1',
    '::ffff:7f00:1',
    '0:0:0:0:0:ffff:a9fe:a9fe',
    '64:ff9b::10.0.0.1',
    '64:ff9b:1::1',
    'fc00::1',
    'fd00:ec2::254',
    'fe80::1',
    'fe80::1%eth0',
    'fec0::1',
    'ff02::1',
    '2001::1',
    '2001:db8::1',
    '2002:7f00:1::',
    '3fff::1',
    'localhost',
    '',
  ])('%s', (address) => {
    expect(isPublicAddress(address)).toBe(false)
  })
})

const send = (url: string, allowPrivate = false) =>
  post({ url, headers: {}, body: '{}', allowPrivate, signal: AbortSignal.timeout(10_000) })

describe('a post is refused, before anything is connected,', () => {
  it.each([
    'https://127.0.0.1/',
    'https://2130706433/',
    'https://0x7f000001/',
    'https://0177.0.0.1/',
    'https://127.1/',
    'https://0/',
    'https://127.0.0.1./',
    'https://[::1]/',
    'https://[::ffff:127.0.0.1]/',
    'https://[fe80::1]/',
    'https://169.254.169.254/latest/meta-data/',
    'https://10.0.0.5:8443/',
    'https://localhost/', // looked up, and judged by what it leads to
  ])('to %s', async (url) => {
    await expect(send(url)).rejects.toThrow(ForbiddenEndpointError)
    await expect(send(url)).rejects.toThrow('is not a public address')
  })

  it('without TLS', async () => {
    await using endpoint = await Endpoint.open()
    await expect(send(endpoint.url)).rejects.toThrow('has no TLS')
    await expect(send('http://example.com/')).rejects.toThrow('has no TLS')
    expect(endpoint.hits).toEqual([])
  })
})

describe('a post', () => {
  it('goes to a private address when that is allowed', async () => {
    await using endpoint = await Endpoint.open({ status: 400, body: 'no, thank you' })
    expect(await send(endpoint.url, true)).toEqual({
      status: 400,
      retryAfter: undefined,
      excerpt: 'no, thank you',
    })
    expect(endpoint.hits).toHaveLength(1)
  })

  it('does not go to a port that speaks no TLS when the URL says https', async () => {
    await using endpoint = await Endpoint.open()
    await expect(send(endpoint.url.replace('http:', 'https:'), true)).rejects.toThrow()
    expect(endpoint.hits).toEqual([])
  })

  it('reads the beginning of an answer that never ends', async () => {
    await using endpoint = await Endpoint.open((response) => {
      response.writeHead(500)
      const more = () => {
        while (!response.destroyed && response.write('x'.repeat(10_000)));
      }
      response.on('drain', more)
      more()
    })
    const { status, excerpt } = await send(endpoint.url, true)
    expect(status).toBe(500)
    expect(excerpt).toHaveLength(2048)
  })

  it('counts the status of an answer that breaks off', async () => {
    await using endpoint = await Endpoint.open((response) => {
      response.writeHead(200, { 'content-length': '100' })
      response.write('half', () => response.destroy())
    })
    expect(await send(endpoint.url, true)).toMatchObject({ status: 200 })
  })

  it('fails when nobody answers, or the time is up', async () => {
    const endpoint = await Endpoint.open()
    const { url } = endpoint
    await endpoint[Symbol.asyncDispose]()
    await expect(send(url, true)).rejects.toThrow('ECONNREFUSED')

    await using silent = await Endpoint.open(() => {})
    const late = post({
      url: silent.url,
      headers: {},
      body: '',
      allowPrivate: true,
      signal: AbortSignal.timeout(50),
    })
    await expect(late).rejects.toThrow(/abort/i)
  })
})
