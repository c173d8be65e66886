import type { MiddlewareHandler } from 'hono'
import { bodyLimit } from 'hono/body-limit'
import { ProblemError, problem } from './problem.ts'

/** The largest body that is read, unless the server was told otherwise, in bytes. */
export const BODY_LIMIT = 4 * 1024 * 1024

/**
 * Keeps web pages out while there are no keys: a page of any site may send requests to a server on
 * the reader's own machine. What a browser says of a request's origin must be this server, and the
 * host must be one that means this machine, so that no name can be made to point here.
 */
export function fromHere(): MiddlewareHandler {
  return async (c, next) => {
    const host = c.req.header('host') ?? ''
    const origin = c.req.header('origin')
    if (!LOOPBACK.test(host)) throw foreign(`the host is ${JSON.stringify(host.slice(0, 100))}`)
    if (origin !== undefined && origin !== `http://${host}` && origin !== `https://${host}`) {
      throw foreign(`the request comes from ${JSON.stringify(origin.slice(0, 100))}`)
    }
    if (c.req.header('sec-fetch-site') === 'cross-site' && c.req.method !== 'GET') {
      throw foreign('the request comes from another site')
    }
    await next()
  }
}

const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d+)?$/i

function foreign(detail: string): ProblemError {
  return new ProblemError(
    problem('JE009', `This server answers its own machine only: ${detail}.`, {
      hint: 'Use http://127.0.0.1 with its port. Reach it from elsewhere through a tunnel.',
    }),
  )
}

/** Refuses a body beyond the limit: before it is read when its length is told, else when it passes it. */
export function limitBody(bytes: number): MiddlewareHandler {
  return bodyLimit({
    maxSize: bytes,
    onError: (c) => {
      const told = c.req.header('content-length')
      throw new ProblemError(
        problem(
          'JE006',
          `The body is larger than ${bytes} bytes${told ? ` (received ${told})` : ''}.`,
          {
            status: 413,
            hint: 'Store large data elsewhere and enqueue a reference to it, or send fewer jobs at a time.',
          },
        ),
        { connection: 'close' },
      )
    },
  })
}
