import { type Duration, durationFrom, milliseconds } from '../definitions/duration.ts'
import {
  type Check,
  callable,
  checkOptions,
  flag,
  plainObject,
  textUpTo,
  wholeNumber,
} from '../options.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { AttemptReport } from './report.ts'

/** How a worker works. All durations are numbers of milliseconds or texts such as `30s`. */
export interface WorkerOptions {
  /** What people call it, in lists and logs. Default `worker`. */
  readonly name?: string | undefined
  /**
   * Tells processes of one name on one host apart: give each its own number, the same at every start,
   * and a restart takes its jobs back at once instead of after its ttl. Default: a number that no other
   * process has.
   */
  readonly slot?: number | undefined
  /** How many handlers run at a time. Default 10. */
  readonly concurrency?: number | undefined
  /**
   * How many jobs are claimed beyond those that can start at once, at most: as many as the handlers
   * lately finished in a few hundredths of a second, so that slots never wait for the database.
   * Default: as many as `concurrency`.
   */
  readonly prefetch?: number | undefined
  /** How long the worker may be silent before its jobs are taken back. 1 s to 1 d, default 30 s. */
  readonly ttl?: Duration | undefined
  /** How often an idle worker looks for work that no notification told it of. Default 5 s. */
  readonly poll?: Duration | undefined
  /** How long a result waits for others to travel with, while there is other work. Default 3 ms. */
  readonly flushDelay?: Duration | undefined
  /** How long a handler may go on after its signal fired before its slot is given to others. Default 5 s. */
  readonly abortGrace?: Duration | undefined
  /** How long `stop()` waits for handlers when it is told nothing. Default 30 s. */
  readonly stopDeadline?: Duration | undefined
  /** False where LISTEN is impossible; a pooler in transaction mode is found out without it. Default true. */
  readonly listen?: boolean | undefined
  /** Whether it calls `fencepost.maintain()` each second. Default true; one worker anywhere is enough. */
  readonly maintain?: boolean | undefined
  /** What it tells of itself, for the list of workers. */
  readonly info?: Readonly<Record<string, unknown>> | undefined
  /** Where its log lines go; one a finished attempt. Default: JSON lines on standard output. */
  readonly logger?: Logger | undefined
  /** Called for each attempt that ended. */
  readonly onAttempt?: ((report: AttemptReport) => void) | undefined
}

/** An option that is a logger. */
export const logger: Check = (value) =>
  typeof (value as Partial<Logger> | null)?.child === 'function'
    ? undefined
    : 'must be a logger with debug, info, warn, error and child, as of pino'

const checks: Readonly<Record<keyof WorkerOptions, Check>> = {
  name: textUpTo(200),
  slot: wholeNumber(0, 2_147_483_647),
  concurrency: wholeNumber(1, 10_000),
  prefetch: wholeNumber(0, 10_000),
  ttl: durationFrom(1_000, 86_400_000),
  poll: durationFrom(10),
  flushDelay: durationFrom(0, 1_000),
  abortGrace: durationFrom(0),
  stopDeadline: durationFrom(0),
  listen: flag,
  maintain: flag,
  info: plainObject,
  logger,
  onAttempt: callable,
}

/** The options of `stop()`. */
export interface StopOptions {
  /** How long handlers may go on. Default: the worker's `stopDeadline`. */
  readonly deadline?: Duration | undefined
}

/**
 * The time that `stop()` waits, in ms.
 *
 * @throws FencepostError JE003
 */
export function stopDeadlineOf(options: StopOptions, otherwise: number): number {
  checkOptions('stop', options, { deadline: durationFrom(0) })
  return options.deadline === undefined ? otherwise : milliseconds(options.deadline)
}

/** Options with their defaults, durations in ms. */
export interface WorkerSettings {
  readonly name: string
  readonly slot: number | undefined
  readonly concurrency: number
  readonly prefetch: number
  readonly ttl: number
  readonly poll: number
  readonly flushDelay: number
  readonly abortGrace: number
  readonly stopDeadline: number
  readonly listen: boolean
  readonly maintain: boolean
  readonly info: Readonly<Record<string, unknown>>
  readonly onAttempt: (report: AttemptReport) => void
}

/**
 * Checks options and completes them.
 *
 * @throws FencepostError JE003
 */
export function settingsOf(options: WorkerOptions): WorkerSettings {
  checkOptions('worker', options, checks)
  const { concurrency = 10 } = options
  return {
    name: options.name ?? 'worker',
    slot: options.slot,
    concurrency,
    prefetch: options.prefetch ?? concurrency,
    ttl: milliseconds(options.ttl ?? '30s'),
    poll: milliseconds(options.poll ?? '5s'),
    flushDelay: milliseconds(options.flushDelay ?? 3),
    abortGrace: milliseconds(options.abortGrace ?? '5s'),
    stopDeadline: milliseconds(options.stopDeadline ?? '30s'),
    listen: options.listen ?? true,
    maintain: options.maintain ?? true,
    info: options.info ?? {},
    onAttempt: options.onAttempt ?? (() => {}),
  }
}
