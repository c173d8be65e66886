import { once } from 'node:events'
import net from 'node:net'

/** A TCP proxy before a server, that a test makes misbehave. */
export interface TcpProxy extends AsyncDisposable {
  /** The server's address, through the proxy. */
  readonly url: string
  /** Delays what passes, each way, in ms. */
  latency: number
  /** While true nothing passes and nothing is closed, as when a cable is cut; what was swallowed stays lost. */
  blackHole: boolean
  /** How many connections are open. */
  readonly open: number
  /** Resets all connections. */
  reset(): void
  close(): Promise<void>
}

/** With `at`, on that port: where a proxy stood before that was closed. */
export async function startProxy(target: string, at = 0): Promise<TcpProxy> {
  const { hostname, port } = new URL(target)
  const sockets = new Set<net.Socket>()
  const server = net.createServer((client) => {
    const upstream = net.connect(Number(port), hostname)
    pass(client, upstream)
    pass(upstream, client)
  })

  function pass(from: net.Socket, to: net.Socket): void {
    let lost = false
    const later = (act: () => void) => {
      lost ||= proxy.blackHole
      if (lost) return
      if (proxy.latency > 0) setTimeout(act, proxy.latency)
      else act()
    }
    sockets.add(from)
    from.on('error', () => {})
    from.on('data', (chunk) => later(() => to.write(chunk)))
    from.on('close', () => {
      sockets.delete(from)
      later(() => to.destroy())
    })
  }

  await once(server.listen(at, '127.0.0.1'), 'listening')
  const url = new URL(target)
  url.port = String((server.address() as net.AddressInfo).port)
  const proxy = {
    url: url.href,
    latency: 0,
    blackHole: false,
    get open() {
      return sockets.size / 2
    },
    reset() {
      for (const socket of sockets) socket.resetAndDestroy()
    },
    async close() {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
    [Symbol.asyncDispose]: () => proxy.close(),
  }
  return proxy
}
