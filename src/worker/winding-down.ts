import type { Database } from '../database/database.ts'
import * as engine from '../database/engine.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { Attempt } from './attempt.ts'
import type { Outbox } from './outbox.ts'
import type { Pump } from './pump.ts'
import type { Runner } from './runner.ts'
import { within } from './within.ts'

/** What winds down. */
export interface WindingDown {
  readonly db: Database
  readonly log: Logger
  readonly runner: Runner
  readonly outbox: Outbox
  readonly pump: Pump
  /** It was given back unstarted. */
  readonly released: (attempt: Attempt) => void
}

/** Handlers that were told to stop have so long to do it, in ms. */
const STOPPING = 1_000
/** How long it is tried to send what there is, in ms. */
const FLUSHING = 5_000

/**
 * Takes nothing new, gives unstarted jobs back, lets handlers end within `deadline` ms and stops the
 * others, sends all results. True when nothing is left to send.
 */
export async function windDown(parts: WindingDown, deadline: number): Promise<boolean> {
  const { pump, runner, outbox, log } = parts
  const until = performance.now() + deadline
  const left = () => Math.max(0, until - performance.now())
  runner.close()
  await within(pump.stopClaiming(), left())
  await giveBack(parts)
  await within(runner.whenIdle(), left())
  await endHandlers(runner)
  const isFlushed = await within(pump.whenFlushed(), FLUSHING)
  // What a claim brought that was under way when the deadline passed.
  await giveBack(parts)
  pump.close()
  const { size: jobs } = outbox
  if (jobs > 0) log.error({ jobs }, 'results could not be sent; these jobs run again')
  return isFlushed
}

/** Says goodbye, so that nobody waits for a ttl. */
export async function sayGoodbye(
  { db, log }: Pick<WindingDown, 'db' | 'log'>,
  incarnation: number,
  isFlushed: boolean,
): Promise<void> {
  try {
    await engine.stopWorker(db, incarnation, { timeout: isFlushed ? FLUSHING : STOPPING })
  } catch (error) {
    log.warn({ error }, 'the worker could not say goodbye')
  }
}

/** What has not started goes to others, and does not count. */
async function giveBack({ db, log, runner, released }: WindingDown): Promise<void> {
  const unstarted = runner.takeQueue()
  if (unstarted.length === 0) return
  const ids = unstarted.map(({ job }) => job.job_id)
  const tokens = unstarted.map(({ job }) => job.token)
  try {
    await engine.releaseMany(db, ids, tokens, { timeout: FLUSHING })
    for (const attempt of unstarted) released(attempt)
  } catch (error) {
    log.warn({ error, jobs: ids.length }, 'unstarted jobs could not be given back')
  }
}

/** Who still runs is told to stop, and who does not is left behind: its job goes on elsewhere. */
async function endHandlers(runner: Runner): Promise<void> {
  if (runner.running === 0) return
  for (const attempt of [...runner.held]) runner.abort(attempt, 'stopping')
  await within(runner.whenIdle(), STOPPING)
  for (const attempt of [...runner.held]) {
    if (attempt.ending === undefined) attempt.giveUp('stopping')
  }
}
