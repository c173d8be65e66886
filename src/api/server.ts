import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { createAdaptorServer } from '@hono/node-server'
import { FencepostError } from '../errors.ts'
import { type Api, type ApiOptions, createApi } from './app.ts'

/** How the API is served. */
export interface ServeOptions extends Omit<ApiOptions, 'stopping'> {
  /** Default 3773. 0 takes any free port. */
  readonly port?: number
  /** An address that only this machine reaches, as there are no keys yet. Default 127.0.0.1. */
  readonly host?: string
  /** Lets it listen on an address that others reach, who may then do everything. Default false. */
  readonly withoutKeys?: boolean
  /** How many further ports are tried when the port is taken. Default 0. */
  readonly portsToTry?: number
}

/** An API that listens. */
export interface ApiServer extends AsyncDisposable {
  /** Where it answers, as `http://127.0.0.1:3773`. */
  readonly url: string
  readonly port: number
  /** Takes no new requests, ends streams, finishes what is under way for at most `grace` ms (default 5,000), ends. */
  close(grace?: number): Promise<void>
}

/** The port of the API when nobody says another: F, P on a telephone's keys. */
export const DEFAULT_PORT = 3773

/**
 * Serves the API on an address of this machine.
 *
 * @throws FencepostError JE009 for an address that others reach; Error with code EADDRINUSE when no
 *   port was free
 */
export async function serveApi(options: ServeOptions): Promise<ApiServer> {
  const { port = DEFAULT_PORT, host = '127.0.0.1', portsToTry = 0, withoutKeys, ...rest } = options
  if (!withoutKeys) refusePublic(host)
  const stopping = new AbortController()
  const api = createApi({ ...rest, stopping: stopping.signal })
  const server = createServer(api)
  const spare = spareConnections(server)
  const bound = await listen(server, host, port, portsToTry)
  const shown = host.includes(':') ? `[${host}]` : host
  const close = async (grace = 5_000) => {
    stopping.abort()
    for (const socket of spare) socket.destroy()
    await closed(server, grace)
  }
  return {
    url: `http://${shown}:${bound}`,
    port: bound,
    close,
    [Symbol.asyncDispose]: () => close(),
  }
}

function createServer(api: Api): Server {
  return createAdaptorServer({
    fetch: (request) => api.fetch(request),
    serverOptions: {
      // A client that sends slowly does not hold a connection for long.
      headersTimeout: 10_000,
      requestTimeout: 30_000,
      keepAliveTimeout: 10_000,
    },
  }) as Server
}

/**
 * Connections that have asked nothing yet. Browsers and fetch keep some in store; to Node they are not idle, and
 * closing would wait for them.
 */
function spareConnections(server: Server): ReadonlySet<Socket> {
  const spare = new Set<Socket>()
  server.on('connection', (socket) => {
    spare.add(socket)
    socket.once('close', () => spare.delete(socket))
  })
  server.on('request', ({ socket }) => spare.delete(socket))
  return spare
}

function refusePublic(host: string): void {
  if (/^(?:localhost|127(?:\.\d{1,3}){3}|::1)$/i.test(host)) return
  throw new FencepostError('JE009', `the API has no keys yet and must not listen on ${host}`, {
    detail: `received host = ${host}`,
    hint: 'Listen on 127.0.0.1, and reach it from elsewhere through a tunnel that knows who may.',
  })
}

/** The port that was taken: the wanted one, or the first free one of those after it. */
async function listen(server: Server, host: string, port: number, more: number): Promise<number> {
  for (let wanted = port; ; wanted++) {
    try {
      return await listenOn(server, host, wanted)
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      if (code !== 'EADDRINUSE' || wanted >= port + more || port === 0) throw error
    }
  }
}

function listenOn(server: Server, host: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen({ host, port }, () => {
      server.off('error', reject)
      const address = server.address()
      resolve(typeof address === 'object' && address !== null ? address.port : port)
    })
  })
}

/** A connection that is kept alive for more requests ends with the answer to the one under way. */
function closed(server: Server, grace: number): Promise<void> {
  const idle = setInterval(() => server.closeIdleConnections(), 20)
  return new Promise((resolve) => {
    const timer = setTimeout(() => server.closeAllConnections(), grace)
    server.close(() => {
      clearTimeout(timer)
      clearInterval(idle)
      resolve()
    })
    server.closeIdleConnections()
  })
}
