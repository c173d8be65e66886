import type { z } from '@hono/zod-openapi'
import type { ErrorCode } from '../errors.ts'
import { fields } from './fields.ts'
import type { Services } from './services.ts'

/** What a request asks, taken apart and checked. */
export interface Input<Params, Query, Body, Headers = unknown> {
  readonly params: Params
  readonly query: Query
  readonly body: Body
  readonly headers: Headers
}

/** What answers a request. */
export interface Answer {
  readonly status: 200 | 201 | 202 | 204 | 503
  /** Sent as JSON; times become ISO 8601. */
  readonly body?: unknown
  /** Sent as it is, as this type of content. */
  readonly text?: { readonly type: string; readonly value: string }
  /** Sent as it comes, as this type of content. */
  readonly stream?: { readonly type: string; readonly body: ReadableStream<Uint8Array> }
  readonly headers?: Readonly<Record<string, string>>
}

/** One kind of answer, for the reference. */
export interface Outcome {
  readonly description: string
  readonly schema?: z.ZodType
  /** Default application/json. */
  readonly type?: string
}

/** One route: what it takes, what it answers, how. */
export interface Endpoint {
  readonly method: 'get' | 'post' | 'put' | 'patch' | 'delete'
  /** With parameters in braces: `/jobs/{id}`. */
  readonly path: string
  readonly tag: Tag
  readonly summary: string
  readonly description: string | undefined
  readonly params: z.ZodType | undefined
  readonly query: z.ZodType
  readonly body: z.ZodType | undefined
  /** False when the body may be left out. */
  readonly bodyRequired: boolean
  readonly headers: z.ZodType | undefined
  readonly answers: Readonly<Record<number, Outcome>>
  /** Schemas that others refer to by name. */
  readonly components: Readonly<Record<string, z.ZodType>>
  /** Codes that it may answer with, besides JE003 and a database that is down. */
  readonly problems: readonly ErrorCode[]
  handle(input: Input<never, never, never, never>, services: Services): Promise<Answer>
}

/** Groups of routes in the reference. */
export type Tag =
  | 'jobs'
  | 'types'
  | 'dead letters'
  | 'workers'
  | 'workflows'
  | 'runs'
  | 'tasks'
  | 'approvals'
  | 'events'
  | 'consumers'
  | 'webhooks'
  | 'worker protocol'
  | 'service'

interface Definition<
  Params extends z.ZodType,
  Query extends z.ZodType,
  Body extends z.ZodType,
  Headers extends z.ZodType,
> {
  readonly method: Endpoint['method']
  readonly path: string
  readonly tag: Tag
  readonly summary: string
  readonly description?: string
  readonly params?: Params
  readonly query?: Query
  readonly body?: Body
  readonly bodyRequired?: boolean
  readonly headers?: Headers
  readonly answers: Readonly<Record<number, Outcome>>
  readonly components?: Readonly<Record<string, z.ZodType>>
  readonly problems?: readonly ErrorCode[]
  handle(
    input: Input<z.output<Params>, z.output<Query>, z.output<Body>, z.output<Headers>>,
    services: Services,
  ): Promise<Answer>
}

/** Declares a route; `handle` gets what the schemas let through. */
export function endpoint<
  Params extends z.ZodType = z.ZodUndefined,
  Query extends z.ZodType = typeof noOptions,
  Body extends z.ZodType = z.ZodUndefined,
  Headers extends z.ZodType = z.ZodUndefined,
>(definition: Definition<Params, Query, Body, Headers>): Endpoint {
  return {
    description: undefined,
    params: undefined,
    body: undefined,
    bodyRequired: true,
    headers: undefined,
    components: {},
    problems: [],
    ...definition,
    query: definition.query ?? noOptions,
    handle: definition.handle as Endpoint['handle'],
  }
}

/** A name that tells routes apart: `GET /jobs/{id}`. */
export function nameOf({ method, path }: Pick<Endpoint, 'method' | 'path'>): string {
  return `${method.toUpperCase()} ${path}`
}

/** The query of a route that has no options. */
export const noOptions = fields('query option', {})
