import { expect, inject } from 'vitest'
import { type Endpoint, nameOf } from '../../src/api/endpoint.ts'
import { endpointsAt } from '../../src/api/missing.ts'
import { ProblemDocument } from '../../src/api/schemas.ts'
import { type ApiServer, type ServeOptions, serveApi } from '../../src/api/server.ts'
import { Gathered } from '../support/gathered.ts'
import { type TestDatabase, testDatabase } from '../support/server.ts'

/** What came back. */
export interface Reply {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** The body as JSON; undefined when it is none. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into it
  readonly body: any
}

/** An API over a database of its own, and who asks it. */
export interface TestApi {
  readonly server: ApiServer
  readonly database: TestDatabase
  get(path: string, headers?: Record<string, string>): Promise<Reply>
  /** A body that is a text is sent as it is. */
  send(
    method: string,
    path: string,
    body?: unknown,
    headers?: Record<string, string>,
  ): Promise<Reply>
  post(path: string, body?: unknown, headers?: Record<string, string>): Promise<Reply>
  /** Asks, and leaves the body to whoever reads it as it comes. */
  open(path: string, headers?: Record<string, string>, signal?: AbortSignal): Promise<Response>
  stop(): Promise<void>
}

/** Serves the API on a free port; `stop()` notes which routes answered well and which refused. */
export async function testApi(
  options: Partial<ServeOptions> & { readonly database?: TestDatabase } = {},
): Promise<TestApi> {
  const { database = await testDatabase(), ...rest } = options
  const server = await serveApi({ db: database.db, port: 0, ...rest })
  const seen = new Set<string>()

  async function send(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<Reply> {
    const type = body === undefined ? {} : { 'content-type': 'application/json' }
    const response = await fetch(server.url + path, {
      method,
      headers: { ...type, ...headers },
      ...(body === undefined
        ? {}
        : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    })
    const text = await response.text()
    note(seen, method, path, response.status)
    const isJson = /json/.test(response.headers.get('content-type') ?? '')
    const answer = isJson ? JSON.parse(text) : undefined
    const { status } = response
    const parsed = documented(method, path, status)?.parse(answer ?? text)
    if (answer !== undefined)
      expect(answer, `${method} ${path}: fields that are not documented`).toEqual(parsed)
    return { status, headers: response.headers, text, body: answer }
  }

  return {
    server,
    database,
    send,
    get: (path, headers) => send('GET', path, undefined, headers),
    post: (path, body, headers) => send('POST', path, body, headers),
    async open(path, headers = {}, signal) {
      const response = await fetch(server.url + path, { headers, ...(signal && { signal }) })
      note(seen, 'GET', path, response.status)
      return response
    },
    async stop() {
      await server.close()
      await database.drop()
      new Gathered(inject('gathered')).add('route', [...seen])
    },
  }
}

/** What the reference says of an answer: it must be true of every answer that a test gets. */
function documented(method: string, path: string, status: number) {
  if (status >= 400) return ProblemDocument.strict()
  const endpoint = endpointOf(method, path)
  const answer = endpoint?.answers[status]
  if (answer === undefined)
    throw new Error(`${method} ${path} answered ${status}, which is not documented`)
  return answer.schema
}

function endpointOf(method: string, path: string): Endpoint | undefined {
  const at = endpointsAt(new URL(path, 'http://localhost').pathname)
  return at.find((each) => each.method === method.toLowerCase())
}

function note(seen: Set<string>, method: string, path: string, status: number): void {
  const found = endpointOf(method, path)
  if (found === undefined) return
  seen.add(`${nameOf(found)} ${status < 400 ? 'answered' : 'refused'}`)
}
