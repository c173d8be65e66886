import type { OpenAPIHono } from '@hono/zod-openapi'
import { type Context, Hono } from 'hono'
import type { Database } from '../database/database.ts'
import { ping } from '../database/engine.ts'
import { type Logger, silentLogger } from '../telemetry/logger.ts'
import { engineMetrics } from '../telemetry/metrics.ts'
import { version } from '../version.ts'
import { endpoints } from './endpoints.ts'
import { BODY_LIMIT, fromHere, limitBody } from './guard.ts'
import { missing } from './missing.ts'
import { mount } from './mount.ts'
import { ProblemError, problem, problemOf, respond, UNAVAILABLE } from './problem.ts'
import {
  HEARTBEAT,
  type OpenApiDocument,
  REQUEST_DEADLINE,
  type Services,
  withDeadline,
} from './services.ts'

/** What the API is made of. */
export interface ApiOptions {
  readonly db: Database
  /** Hears of requests that failed, and why. Default: nobody. */
  readonly log?: Logger
  /** The largest body that is read, in bytes. Default 4 MiB. */
  readonly bodyLimit?: number
  /** How long a request waits for the database, in ms. Default 5,000. */
  readonly deadline?: number
  /** Gives the metrics. Default: those of the engine and of this process. */
  readonly metrics?: Services['metrics']
  /** How often a stream without news says that it is alive, in ms. Default 15,000. */
  readonly heartbeat?: number
  /** Aborted once the server is stopping: probes then tell others to send no more, and streams end. */
  readonly stopping?: AbortSignal
}

/** An API over HTTP; `fetch` answers a request. */
export interface Api {
  fetch(request: Request): Promise<Response>
}

/**
 * The API: the same routes at `/` and under `/api`. It answers whoever reaches it from this machine,
 * as there are no keys yet.
 */
export function createApi(options: ApiOptions): Api {
  const log = options.log ?? silentLogger
  const services = servicesOf(options, log, () => document)
  const routes = mount(endpoints, services)
  const document = describe(routes)

  const app = new Hono()
  app.use(fromHere(), limitBody(options.bodyLimit ?? BODY_LIMIT))
  app.route('/api', routes)
  app.route('/', routes)
  app.notFound((c) => respondTo(missing(c.req.method, c.req.path)))
  app.onError((error, c) => {
    const answer = respondTo(error)
    if (answer.status >= 500) logFailure(log, c, error, answer.status)
    return answer
  })
  return { fetch: async (request) => app.fetch(request) }
}

function servicesOf(options: ApiOptions, log: Logger, openapi: () => OpenApiDocument): Services {
  const stopping = options.stopping ?? new AbortController().signal
  const db = withDeadline(options.db, options.deadline ?? REQUEST_DEADLINE)
  return {
    db,
    log,
    stopping,
    heartbeat: options.heartbeat ?? HEARTBEAT,
    openapi,
    metrics: options.metrics ?? engineMetrics({ db }).text,
    async ready() {
      if (stopping.aborted) {
        throw new ProblemError(problem(UNAVAILABLE, 'The server is stopping.'))
      }
      await ping(db)
    },
  }
}

function respondTo(error: unknown): Response {
  return respond(problemOf(error), error instanceof ProblemError ? error.headers : {})
}

function logFailure(log: Logger, c: Context, error: unknown, status: number): void {
  log.error({ method: c.req.method, path: c.req.path, status, err: error }, 'a request failed')
}

function describe(routes: OpenAPIHono): OpenApiDocument {
  return routes.getOpenAPI31Document({
    openapi: '3.1.0',
    info: {
      title: 'Fencepost',
      version,
      description:
        'Durable jobs and workflows inside PostgreSQL. Every route is a thin face of an SQL function of the schema ' +
        '`fencepost`. Refusals are problem documents (RFC 9457) whose `code` is the SQLSTATE. The same ' +
        'routes are there under `/api`. Until keys exist, the server answers its own machine only.',
    },
    servers: [{ url: '/' }, { url: '/api' }],
    tags: [
      { name: 'jobs', description: 'Enqueue, look, cancel, try again.' },
      { name: 'types', description: 'Settings of a kind of work.' },
      {
        name: 'dead letters',
        description: 'Jobs that failed for good, kept until someone decides.',
      },
      { name: 'workers', description: 'Who works, on what, and when it was last heard of.' },
      { name: 'workflows', description: 'Graphs of tasks: publish, look, compare versions.' },
      { name: 'runs', description: 'Start runs of workflows, look, and take hold of them.' },
      { name: 'tasks', description: 'The parts of runs: gate them, try them again.' },
      { name: 'approvals', description: 'What people are asked to decide.' },
      { name: 'events', description: 'The event log: everything that happened, in commit order.' },
      { name: 'consumers', description: 'Independent readers of the event log.' },
      { name: 'webhooks', description: 'Endpoints of others that get events over HTTP.' },
      { name: 'worker protocol', description: 'For workers without access to the database.' },
      { name: 'service', description: 'Probes, metrics, reference.' },
    ],
  }) as OpenApiDocument
}
