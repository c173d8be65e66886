import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { expect, it, onTestFinished } from 'vitest'
import { post } from '../../src/relay/webhook/post.ts'

/** More than what a connection holds that nobody reads. */
const body = JSON.stringify({ data: 'x'.repeat(8_000_000) })

it.each([
  ['and has said all', 'ok', ''],
  ['and goes on when it has read', '', 'ok'],
])(
  'an endpoint that accepts before it reads, %s, is sent the whole request',
  async (_what, before, after) => {
    const server = createServer({ pauseOnConnect: true }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const connected = once(server, 'connection') as Promise<[Socket]>
    const { port } = server.address() as AddressInfo
    const answer = post({
      url: `http://127.0.0.1:${port}/`,
      headers: {},
      body,
      allowPrivate: true,
      signal: new AbortController().signal,
    })
    const [socket] = await connected
    onTestFinished(() => {
      socket.destroy()
      server.close()
    })
    socket.write(`HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n${before}`)
    expect(await answer).toMatchObject({ status: 200 }) // and waits for nothing more
    const read = text(socket)
    socket.resume().write(after)
    expect((await read).endsWith(body)).toBe(true)
  },
)
