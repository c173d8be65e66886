import path from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { Child, type Saying } from '../support/child.ts'
import { freshType } from '../support/engine.ts'
import { expectSound, publishRaw, start, type TaskSpec } from '../support/runs.ts'
import { ownDatabase } from '../support/server.ts'

// What a worker holds does not grow with the runs that it works on: after ten thousand items it has what it had after a
// hundred, and in between the system gave it no more than a little.

const database = ownDatabase()
const db = () => database.db
afterEach(() => expectSound(db()))

/** What it may hold more, in bytes: a kilobyte an item would be seen. */
const HELD = 10_000_000
/** What it may have had more at any moment. */
const NEEDED = 100_000_000

interface Memory extends Saying {
  readonly heapUsed: number
  readonly rss: number
  /** The highest rss so far. */
  readonly peak: number
}

/** What the worker holds now. */
async function measured(worker: Child<Memory>): Promise<Memory> {
  const told = worker.count('memory')
  worker.tell('measure')
  await worker.until(() => worker.count('memory') > told)
  return worker.said.at(-1) as Memory
}

const item = freshType('item')
const gathering = freshType('gather')
const numbers = (count: number) => Array.from({ length: count }, (_, n) => n)

/** A run that squares so many numbers and gathers the squares. */
interface Shape {
  readonly tasks: Record<string, TaskSpec>
  readonly input: unknown
}

/** One map, over numbers of the input. */
const mapped = (count: number): Shape => ({
  tasks: {
    all: { kind: 'map', over: '$.input.list', type: item },
    end: { type: gathering, after: ['all'] },
  },
  input: { list: numbers(count) },
})

/** A task for each number. */
function spelledOut(count: number): Shape {
  const tasks = numbers(count).map((n) => [`t${n}`, { type: item, input: { item: n } }])
  const after = tasks.map(([name]) => name)
  return { tasks: { ...Object.fromEntries(tasks), end: { type: gathering, after } }, input: {} }
}

it.each([
  ['a map over 10,000 items', mapped, 10_000],
  ['a run of 10,000 tasks', spelledOut, 9_999],
])(
  '%s takes less than 100 MB more of a worker than one of 100',
  async (_, shape, many) => {
    const script = path.join(import.meta.dirname, 'metered.mjs')
    const told = { url: database.url, item, gathering, options: { concurrency: 100 } }
    await using worker = new Child<Memory>(script, told, ['--expose-gc'])
    await worker.says('ready')

    async function work(count: number): Promise<void> {
      const { tasks, input } = shape(count)
      const workflow = freshType('flow')
      await publishRaw(db(), workflow, { tasks })
      const gathered = worker.count('gathered')
      const run = await start(db(), workflow, input)
      await worker.until(() => worker.count('gathered') > gathered)
      expect(await run.status()).toBe('completed')
      const squares = numbers(count).reduce((sum, n) => sum + n * n, 0)
      expect((await run.task('end')).output).toBe(squares)
    }

    await work(100)
    const before = await measured(worker)
    await work(many)
    const after = await measured(worker)
    expect(after.heapUsed - before.heapUsed).toBeLessThan(HELD)
    expect(after.peak - before.rss).toBeLessThan(NEEDED)
  },
  120_000,
)
