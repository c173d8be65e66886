import { once } from 'node:events'
import net from 'node:net'
import tls from 'node:tls'
import type { Address, Host } from './address.ts'

/**
 * A TCP or Unix socket to a server, with TLS when the address asks for it, ready for the start-up
 * message. `destroy()` on it ends everything at once, also when the other side no longer answers.
 *
 * @param signal ends the attempt
 */
export async function openSocket(
  address: Address,
  host: Host,
  signal: AbortSignal,
): Promise<net.Socket> {
  const socket = 'path' in host ? net.connect(host.path) : net.connect(host.port, host.host)
  socket.on('error', () => {}) // whoever uses it has a listener of its own; none is no crash
  const abort = () => socket.destroy(signal.reason)
  signal.addEventListener('abort', abort)
  try {
    signal.throwIfAborted()
    await once(socket, 'connect', { signal })
    socket.setNoDelay(true)
    socket.setKeepAlive(true, KEEPALIVE)
    return 'path' in host ? socket : await secure(address, host.host, socket, signal)
  } catch (error) {
    socket.destroy()
    throw signal.aborted ? signal.reason : error
  } finally {
    signal.removeEventListener('abort', abort)
  }
}

/** After how many ms of silence the system asks whether the other side is still there. */
export const KEEPALIVE = 10_000

const SSL_REQUEST = Buffer.from([0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f])

async function secure(
  { tls: mode }: Address,
  host: string,
  socket: net.Socket,
  signal: AbortSignal,
): Promise<net.Socket> {
  if (mode === undefined) return socket
  if (!mode.direct && !(await asksForTls(socket, signal))) {
    if (mode.optional) return socket
    throw Object.assign(new Error('the server does not speak TLS, and sslmode demands it'), {
      code: 'NO_TLS',
    })
  }
  const secured = tls.connect({
    ...mode.options,
    socket,
    host, // the name that the certificate must bear, also when it is a number
    ...(net.isIP(host) ? {} : { servername: host }),
    ...(mode.direct ? { ALPNProtocols: ['postgresql'] } : {}),
  })
  secured.on('error', () => {})
  const abort = () => secured.destroy()
  signal.addEventListener('abort', abort)
  try {
    await once(secured, 'secureConnect', { signal })
    return secured
  } finally {
    signal.removeEventListener('abort', abort)
  }
}

async function asksForTls(socket: net.Socket, signal: AbortSignal): Promise<boolean> {
  socket.write(SSL_REQUEST)
  const ended = new AbortController()
  const closed = () => ended.abort(new Error('the server closed the connection'))
  socket.once('close', closed)
  try {
    const [answer] = await once(socket, 'data', { signal: AbortSignal.any([signal, ended.signal]) })
    return (answer as Buffer)[0] === 'S'.charCodeAt(0)
  } finally {
    socket.off('close', closed)
  }
}
