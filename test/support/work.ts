import type { Queryable } from '../../src/database/database.ts'
import { claim, complete, fail } from '../../src/database/engine.ts'

/** What a job of a type gives: a result, or an error that fails it for good. */
export type Handlers = Readonly<Record<string, (payload: never) => unknown>>

/**
 * Works off all jobs of these types that are ready, one after another, until none is left. An `Error`
 * that a handler returns dead-letters its job. Gives the types in the order of their work.
 */
export async function workOff(db: Queryable, handlers: Handlers): Promise<string[]> {
  const types = Object.keys(handlers)
  const done: string[] = []
  for (;;) {
    const [job] = await claim(db, { worker: 'test', types })
    if (job === undefined) return done
    const result = handlers[job.type]?.(job.payload as never) ?? null
    if (result instanceof Error) {
      await fail(db, job.job_id, job.token, { error: result.message, permanent: true })
    } else {
      await complete(db, job.job_id, job.token, result)
    }
    done.push(job.type)
  }
}
