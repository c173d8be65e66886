import path from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { Child, type Saying } from '../support/child.ts'
import { expectSound, publish, start, typeOf } from '../support/runs.ts'
import { ownDatabase } from '../support/server.ts'
import { column } from '../support/sql.ts'

const database = ownDatabase()
const db = () => database.db
afterEach(() => expectSound(db()))

interface Said extends Saying {
  readonly runId?: number
}

const PROCESSES = 8
const PARENTS = 50
const ROUNDS = 100

it('50 parents that end at once in eight worker processes start their child exactly once, 100 times', async () => {
  const names = Array.from({ length: PARENTS }, (_, n) => `p${n}`)
  const parent = 'parents.parent'
  const workflow = await publish(db(), {
    ...Object.fromEntries(names.map((name) => [name, { type: parent }])),
    end: { after: names },
  })
  const child = typeOf(workflow, 'end')
  // no process has room for more than its share, so all of them take part
  const options = { concurrency: Math.ceil(PARENTS / PROCESSES), prefetch: 0 }
  const script = path.join(import.meta.dirname, 'parents.mjs')
  const workers = Array.from(
    { length: PROCESSES },
    () => new Child<Said>(script, { url: database.url, parent, child, options }),
  )
  const told = (event: string) => workers.reduce((sum, each) => sum + each.count(event), 0)
  /** Resolves when all of them together have said something so often. */
  const reached = (event: string, count: number) =>
    Promise.race(workers.map((each) => each.until(() => told(event) >= count)))

  try {
    await Promise.all(workers.map((each) => each.says('ready')))
    const runs: number[] = []
    for (let round = 1; round <= ROUNDS; round++) {
      const run = await start(db(), workflow)
      runs.push(run.id)
      await reached('waits', round * PARENTS)
      for (const each of workers) each.tell('go')
      await reached('completed', round)
      expect(await run.status()).toBe('completed')
    }
    // looked at in the end, so that one that came too late is seen as well
    const started = workers.flatMap(({ said }) => said.filter(({ event }) => event === 'child'))
    expect(started.map(({ runId }) => runId).toSorted(ascending)).toEqual(runs)
    expect(
      await column(
        db(),
        `select count(*)::int from fencepost_private.event where kind = 'job.completed' group by run_id`,
      ),
    ).toEqual(runs.map(() => PARENTS + 1))
    for (const each of workers) expect(each.count('waits')).toBeGreaterThan(0)
  } finally {
    await Promise.all(workers.map((each) => each[Symbol.asyncDispose]()))
  }
}, 180_000)

const ascending = (one = 0, other = 0) => one - other
