import { setTimeout as sleep } from 'node:timers/promises'
import type { Database } from '../../database/database.ts'
import { enqueueMany } from '../../database/engine.ts'
import { type Example, findExample } from './example.ts'
import { progressOf } from './progress.ts'
import { heldBy, watchRecovery } from './recovery.ts'
import type { Screen } from './screen.ts'
import { WorkerProcess } from './worker-process.ts'
import { startWorkflowExample } from './workflow-example.ts'

/** What the example needs. */
export interface ExampleOptions {
  readonly db: Database
  readonly url: string
  /** Where the worker's log goes. */
  readonly directory: string
  readonly env: Readonly<Record<string, string | undefined>>
  readonly screen: Screen
}

/** The name of the example's worker, as lists of workers show it. */
const WORKER = 'example'
/** A chunk of the file takes at least this long, in ms, so that a person can watch. */
const PAUSE = '250'
/** How often the progress is read, in ms. */
const PERIOD = 500
/** How long the worker may finish what it runs, in ms. */
const PATIENCE = 30_000

/** Starts the examples, of jobs and of a workflow, with their workers, and tells how it goes until it is disposed of. */
export async function startExample(options: ExampleOptions): Promise<AsyncDisposable> {
  const { db, screen } = options
  const example = findExample()
  if ('missing' in example) {
    screen.say(`No example here: ${example.missing}.`)
    return { async [Symbol.asyncDispose]() {} }
  }
  const { type, payload, key } = example.start
  await enqueueMany(db, [{ type, payload, idempotency_key: key }])
  const ending = new AbortController()
  const isDone = (await progressOf(db))?.done ?? false
  const worker = workerFor(example, options, isDone, ending.signal)
  worker.start()
  const watching = watch(options, ending.signal)
  const workflow = await startWorkflowExample(options)
  return {
    async [Symbol.asyncDispose]() {
      ending.abort()
      await watching
      await Promise.all([worker.stop(PATIENCE), workflow[Symbol.asyncDispose]()])
    },
  }
}

function workerFor(
  example: Example,
  options: ExampleOptions,
  isDone: boolean,
  signal: AbortSignal,
): WorkerProcess {
  const { db, url, directory, env, screen } = options
  let isFirst = true
  return new WorkerProcess({
    args: [example.module, '--name', WORKER, '--slot', '0', '--concurrency', '4'],
    env: { DIAMONDS_PAUSE: PAUSE, ...env, DATABASE_URL: url },
    directory,
    log: 'worker.log',
    onStart(pid) {
      const now = isDone
        ? 'waits for work: the diamonds of the example are loaded already.'
        : 'loads 53,940 diamonds, four chunks at a time.'
      screen.say(
        isFirst
          ? `A worker (process ${pid}) ${now} Try: kill -9 ${pid}`
          : `Another worker was started (process ${pid}).`,
      )
      isFirst = false
    },
    async onDeath(how) {
      const held = await heldBy(db, WORKER).catch(() => [])
      screen.say(`The worker died (${how}) with ${held.length} jobs in its hands.`)
      if (held.length > 0) {
        screen.say('  They go back to the line and run again, under new tokens.')
        watchRecovery(db, held, (line) => screen.say(line), signal).catch(() => {})
      }
    },
  })
}

/** Shows the progress until the example is done, and then whenever there is more of it. */
async function watch({ db, screen }: ExampleOptions, signal: AbortSignal): Promise<void> {
  let wasDone = false
  while (!signal.aborted) {
    try {
      const progress = await progressOf(db)
      if (progress !== undefined && !(progress.done && wasDone)) {
        screen.progress(progress.line, progress.done)
        if (progress.done) screen.say(DONE)
        wasDone = progress.done
      }
    } catch (error) {
      screen.progress(`The database does not answer: ${(error as Error).message}`)
    }
    await sleep(PERIOD, undefined, { signal }).catch(() => {})
  }
}

const DONE = `All is loaded; rows that contradict themselves are dead letters, each with its reason:
  npx fencepost sql "select cut, count(*), round(avg(usd_per_carat)) as usd_per_carat from example.diamond group by cut"
  npx fencepost dlq list`
