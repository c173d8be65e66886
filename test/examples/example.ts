import { expect } from 'vitest'
import {
  type Database,
  Fencepost,
  type JobDefinition,
  silentLogger,
  type WorkflowDefinition,
} from '../../src/index.ts'
import { testDatabase } from '../support/server.ts'

/** What each example of a workflow exports. */
interface Module {
  readonly workflow: WorkflowDefinition<never, never, never>
  readonly work: readonly unknown[]
  /** Makes the tables that it needs. */
  readonly prepare?: () => Promise<void>
}

/** An example at work. */
export interface Example<Exports> {
  readonly engine: Fencepost
  readonly db: Database
  readonly workflow: Exports extends { workflow: infer Workflow } ? Workflow : never
  /** The id of the approval that a run waits for, as soon as it does. */
  approval(run: number): Promise<number>
  stop(): Promise<void>
}

/** Loads an example on a database of its own, publishes its workflow and starts a worker for its jobs. */
export async function startExample<Exports extends object>(
  load: () => Promise<Exports>,
): Promise<Example<Exports>> {
  const database = await testDatabase()
  process.env.DATABASE_URL = database.url
  const { workflow, work, prepare } = (await load()) as unknown as Module
  const { sql } = await import('../../examples/database.ts')
  await prepare?.()
  const engine = new Fencepost({ url: database.url })
  await engine.publish(workflow)
  const worker = engine.worker(work as readonly JobDefinition[], { logger: silentLogger })
  await worker.start()
  return {
    engine,
    db: database.db,
    workflow: workflow as never,
    async approval(run) {
      const pending = () => engine.approvals({ status: 'pending' })
      await expect.poll(async () => (await pending()).map(({ runId }) => runId)).toContain(run)
      return (await pending()).find(({ runId }) => runId === run)?.id ?? 0
    },
    async stop() {
      await worker.stop()
      await engine.close()
      await sql.end()
      await database.drop()
    },
  }
}
