// Starts a run of an example: node dist/examples/start.js <example> <input> [<key>]
// With a key it is started once: again, it is the same run.

import { Fencepost, type WorkflowDefinition } from 'fencepost'
import { sql } from './database.ts'

interface Example {
  readonly workflow: WorkflowDefinition
  /** Makes the tables that it needs. */
  readonly prepare?: () => Promise<void>
}

const [name, input = '{}', idempotencyKey] = process.argv.slice(2)
const { workflow, prepare }: Example = await import(
  new URL(`${name}/workflow.js`, import.meta.url).href
)
const engine = new Fencepost({ url: process.env.DATABASE_URL ?? '' })
await prepare?.()
await engine.publish(workflow)
const run = await engine.start(workflow, JSON.parse(input), { idempotencyKey })
console.log(run.id)
await engine.close()
await sql.end()
