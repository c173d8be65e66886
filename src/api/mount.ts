import { OpenAPIHono, type z } from '@hono/zod-openapi'
import type { Context } from 'hono'
import { jsonText } from '../json-text.ts'
import { check, readBody } from './body.ts'
import type { Answer, Endpoint, Input } from './endpoint.ts'
import { problemCatalogue, UNAVAILABLE } from './problem.ts'
import { ProblemDocument } from './schemas.ts'
import type { Services } from './services.ts'

type Registered = Parameters<OpenAPIHono['openAPIRegistry']['registerPath']>[0]

/** An app that answers these routes and can describe them. */
export function mount(endpoints: readonly Endpoint[], services: Services): OpenAPIHono {
  const app = new OpenAPIHono()
  for (const each of endpoints) {
    for (const [name, schema] of Object.entries(each.components)) {
      app.openAPIRegistry.register(name, schema)
    }
    app.openAPIRegistry.registerPath(described(each))
    app.on(each.method, each.path.replaceAll(/\{(\w+)\}/g, ':$1'), async (c) =>
      answered(await each.handle(await inputOf(c, each), services)),
    )
  }
  return app
}

async function inputOf(c: Context, endpoint: Endpoint): Promise<Input<never, never, never, never>> {
  const { params, query, headers } = endpoint
  const asked = Object.entries(c.req.queries()).map(([name, values]) => [
    name,
    values.length === 1 ? values[0] : values,
  ])
  return {
    params: (params && check(params, c.req.param(), 'path')) as never,
    query: check(query, Object.fromEntries(asked), 'query') as never,
    headers: (headers ? check(headers, c.req.header(), 'headers') : undefined) as never,
    body: (await readBody(c, endpoint)) as never,
  }
}

function answered({ status, body, text, stream, headers }: Answer): Response {
  if (text !== undefined) {
    return new Response(text.value, { status, headers: { 'content-type': text.type, ...headers } })
  }
  if (stream !== undefined) {
    return new Response(stream.body, {
      status,
      headers: { 'content-type': stream.type, ...headers },
    })
  }
  if (status === 204) return new Response(null, { status, headers: { ...headers } })
  return new Response(`${jsonText(body)}\n`, {
    status,
    headers: { 'content-type': 'application/json', ...headers },
  })
}

function described(endpoint: Endpoint): Registered {
  const { method, path, tag, summary, description, params, query, body, headers } = endpoint
  return {
    method,
    path,
    tags: [tag],
    summary,
    ...(description === undefined ? {} : { description }),
    operationId: operationId(endpoint),
    request: {
      query: query as z.ZodObject,
      ...(params === undefined ? {} : { params: params as z.ZodObject }),
      ...(headers === undefined ? {} : { headers: headers as z.ZodObject }),
      ...(body === undefined
        ? {}
        : {
            body: {
              required: endpoint.bodyRequired,
              content: { 'application/json': { schema: body } },
            },
          }),
    },
    responses: { ...answersOf(endpoint), ...refusalsOf(endpoint) },
  }
}

function answersOf({ answers }: Endpoint): Registered['responses'] {
  return Object.fromEntries(
    Object.entries(answers).map(([status, { description, schema, type = 'application/json' }]) => [
      status,
      schema === undefined ? { description } : { description, content: { [type]: { schema } } },
    ]),
  )
}

/** The problems of a route by their HTTP status. */
function refusalsOf(endpoint: Endpoint): Registered['responses'] {
  const asksDatabase = endpoint.tag !== 'service' || endpoint.path === '/ready'
  const always = asksDatabase ? ['JE003', 'JE009', 'JE011', UNAVAILABLE] : ['JE003']
  const codes = new Set<string>([...always, ...endpoint.problems])
  const reasons = new Map<number, string[]>()
  for (const { code, status, meaning } of problemCatalogue) {
    if (codes.has(code))
      reasons.set(status, [...(reasons.get(status) ?? []), `${code}: ${meaning}`])
  }
  if (endpoint.body !== undefined) {
    reasons.set(413, ['JE006: The body is larger than this server reads.'])
    reasons.set(415, ['JE003: The body is not declared as JSON.'])
  }
  const content = { 'application/problem+json': { schema: ProblemDocument } }
  return Object.fromEntries(
    [...reasons].map(([status, lines]) => [status, { description: lines.join('\n\n'), content }]),
  )
}

/** `GET /jobs/{id}/events` -> `getJobsIdEvents` */
function operationId({ method, path }: Endpoint): string {
  const words = path.split(/[^a-zA-Z]+/).filter(Boolean)
  return method + words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join('')
}
