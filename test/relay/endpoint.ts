import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A request that an endpoint got. */
export interface Hit {
  readonly url: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

/** How an endpoint answers: a status, with headers if need be, or a function that does it all. */
export type Reply =
  | number
  | { readonly status: number; readonly headers?: Record<string, string>; readonly body?: string }
  | ((response: ServerResponse) => void)

/** A real HTTP server on loopback that takes webhooks. */
export class Endpoint implements AsyncDisposable {
  readonly hits: Hit[] = []
  readonly #server: Server
  readonly #replies: Reply[] = []
  /** How it answers when no reply was queued. */
  otherwise: Reply = 204

  private constructor(server: Server) {
    this.#server = server
  }

  static async open(...replies: Reply[]): Promise<Endpoint> {
    const server = createServer()
    const endpoint = new Endpoint(server)
    endpoint.#replies.push(...replies)
    server.on('request', async (request, response) => {
      let body = ''
      for await (const chunk of request.setEncoding('utf8')) body += chunk
      endpoint.hits.push({ url: request.url ?? '', headers: request.headers, body })
      answer(response, endpoint.#replies.shift() ?? endpoint.otherwise)
    })
    await once(server.listen(0, '127.0.0.1'), 'listening')
    return endpoint
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}/hook`
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
    if (this.#server.listening) await once(this.#server, 'close')
  }
}

function answer(response: ServerResponse, reply: Reply): void {
  if (typeof reply === 'function') reply(response)
  else if (typeof reply === 'number') response.writeHead(reply).end()
  else response.writeHead(reply.status, reply.headers).end(reply.body)
}
