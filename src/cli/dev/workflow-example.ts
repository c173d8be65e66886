import { execFile } from 'node:child_process'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { listApprovals } from '../../database/engine.ts'
import type { ExampleOptions } from './start-example.ts'
import { WorkerProcess } from './worker-process.ts'

/** Stands at the same place beside dist/ in a clone and in the package. */
const EXAMPLES = fileURLToPath(new URL('../../examples/', import.meta.url))
/** The name of its worker, as lists of workers show it. */
const WORKER = 'trades'
/** A trade that somebody has to approve; each database sees it once. */
const TRADE = { id: 1, account: 'fund', date: '2018-03-01', shares: 5_000 }
const KEY = 'dev'
/** How often we look whether it waits, in ms. */
const PERIOD = 250
/** How long its worker may finish what it runs, in ms. */
const PATIENCE = 10_000

/** Starts a workflow run that soon waits for a person, with a worker of its own, until it is disposed of. */
export async function startWorkflowExample(options: ExampleOptions): Promise<AsyncDisposable> {
  const { url, directory, env, screen } = options
  const environment = { ...env, DATABASE_URL: url }
  const run = await startRun(environment)
  const worker = new WorkerProcess({
    args: [path.join(EXAMPLES, 'finance', 'workflow.js'), '--name', WORKER, '--slot', '1'],
    env: environment,
    directory,
    log: 'trades.log',
    onStart() {},
    onDeath: (how) => screen.say(`The worker of trades died (${how}); another is started.`),
  })
  worker.start()
  const ending = new AbortController()
  const telling = tellWhenItWaits(run, options, ending.signal)
  return {
    async [Symbol.asyncDispose]() {
      ending.abort()
      await telling
      await worker.stop(PATIENCE)
    },
  }
}

async function startRun(env: Readonly<Record<string, string | undefined>>): Promise<number> {
  const script = path.join(EXAMPLES, 'start.js')
  const args = [script, 'finance', JSON.stringify(TRADE), KEY]
  const { stdout } = await promisify(execFile)(process.execPath, args, { env })
  return Number(stdout)
}

/** Says what to do about it as soon as it waits; nothing when somebody has decided already. */
async function tellWhenItWaits(
  run: number,
  { db, screen }: ExampleOptions,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    const [approval] = await listApprovals(db, { run_id: run }).catch(() => [])
    if (approval !== undefined) {
      if (approval.status === 'pending') screen.say(waits(run, approval.id))
      return
    }
    await sleep(PERIOD, undefined, { signal }).catch(() => {})
  }
}

const waits = (run: number, approval: number) => `
A workflow waits for you: a trade of 5,000 shares is of high risk, so a person has to approve it.
  npx fencepost run watch ${run}
  npx fencepost approval approve ${approval} --comment "looks right"
`
