import { type Database, type Queryable, QueryTimeoutError } from '../database/database.ts'
import type { Logger } from '../telemetry/logger.ts'

/** What the routes work with. */
export interface Services {
  /** Gives each statement up after the request's deadline. */
  readonly db: Pick<Database, 'query' | 'transaction'>
  /** Hears of what goes wrong after an answer has begun. */
  readonly log: Logger
  /** How often a stream without news says that it is alive, in ms. */
  readonly heartbeat: number
  /** Aborted once the server is stopping: streams then end. */
  readonly stopping: AbortSignal
  /** The metrics in the text format of Prometheus. */
  metrics(): Promise<{ readonly type: string; readonly value: string }>
  /** The description of all routes, in OpenAPI 3.1. */
  openapi(): OpenApiDocument
  /** Resolves when the server takes requests and the database answers, else rejects. */
  ready(): Promise<void>
}

/** An OpenAPI document, as far as the reference page reads it. */
export interface OpenApiDocument {
  readonly info: { readonly title: string; readonly version: string; readonly description?: string }
  readonly tags?: readonly { readonly name: string; readonly description?: string }[]
  readonly paths?: Readonly<Record<string, object>>
  readonly components?: { readonly schemas?: Readonly<Record<string, object>> }
}

/** How often a stream without news says that it is alive, in ms, unless the server was told otherwise. */
export const HEARTBEAT = 15_000

/** How long a request waits for the database, in ms, unless the server was told otherwise. */
export const REQUEST_DEADLINE = 5_000

/**
 * The same database, with another deadline: for each statement that does not say one, and for the
 * connection of a transaction.
 */
export function withDeadline(db: Database, timeout: number): Services['db'] {
  const limited = (on: Queryable): Queryable => ({
    query: (text, params, options) => on.query(text, params, { timeout, ...options }),
  })
  return {
    ...limited(db),
    async transaction(run) {
      let timer: NodeJS.Timeout | undefined
      let isLate = false
      const late = new Promise<never>((_, reject) => {
        timer = setTimeout(() => {
          isLate = true
          reject(new QueryTimeoutError(timeout, 'not_sent', 'a connection'))
        }, timeout)
      })
      const work = db.transaction(async (tx) => {
        clearTimeout(timer)
        if (isLate) await late // nobody waits for it any more: it is rolled back
        return run(limited(tx))
      })
      return Promise.race([work, late])
    },
  }
}
