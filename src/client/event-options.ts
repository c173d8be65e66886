import type * as engine from '../database/engine.ts'
import { type Duration, durationFrom } from '../definitions/duration.ts'
import { anything, type Check, plainObject, textUpTo, wholeNumber } from '../options.ts'
import type { Logger } from '../telemetry/logger.ts'
import { logger } from '../worker/options.ts'

/** Which events a reader gets. */
export type EventFilter = engine.EventFilter

/** What a consumer can be given. */
export interface ConsumerOptions {
  /** Which events it gets. Default: all. */
  readonly filter?: EventFilter | undefined
  /** Where it begins: `now` (the default), `beginning` (of what is kept), a time, or a position. */
  readonly start?: Date | string | undefined
  /** How old its oldest unread event may be; beyond it the log is not kept for it. Default 7 days; null: for ever. */
  readonly maxLag?: Duration | null | undefined
}

/** How events are looked for. */
export interface PollOptions {
  /** Ends it: what is under way is finished first. */
  readonly signal?: AbortSignal | undefined
  /** The most events at a time, 1 to 10,000. Default 100. */
  readonly max?: number | undefined
  /** The longest pause between two looks while there is nothing new. Default 1 s. */
  readonly poll?: Duration | undefined
  /** Told what goes wrong and is tried again. Default: JSON lines on standard output. */
  readonly logger?: Logger | undefined
}

/** How a consumer is read. */
export interface SubscribeOptions extends PollOptions {
  /**
   * Who reads, as `consumers` shows it. One that comes back under its old name need not wait for its old lease. Default:
   * host, process and a random word, new each time.
   */
  readonly reader?: string | undefined
  /** How long nobody else may read while a batch is worked on. 1 s to 1 d, default 30 s. */
  readonly lease?: Duration | undefined
}

/** How events are consumed in transactions. */
export interface ConsumeOptions extends PollOptions {
  readonly reader?: string | undefined
  /**
   * How often one event may fail, alone, before it is parked with its error. Default: it is tried for ever, and those
   * behind it wait. A `PermanentError` parks it at once. What the server is to blame for (a full disk, a lock, a
   * statement timeout, a lost connection) does not count.
   */
  readonly maxAttempts?: number | undefined
}

/** What of the log is followed. */
export interface FollowLogOptions extends PollOptions {
  /** Where it goes on: `now` (the default), `beginning`, a time, or the position of an event. */
  readonly after?: Date | string | undefined
  readonly filter?: EventFilter | undefined
}

/** A place that can be sent. */
export const place: Check = (value) =>
  typeof value === 'string' || (value instanceof Date && !Number.isNaN(value.getTime()))
    ? undefined
    : 'must be a valid Date or a text'

export const consumerChecks: Readonly<Record<keyof ConsumerOptions | 'tx', Check>> = {
  filter: plainObject,
  start: place,
  maxLag: (value) => (value === null ? undefined : durationFrom(1)(value)),
  tx: anything,
}

const pollChecks: Readonly<Record<keyof PollOptions, Check>> = {
  signal: (value) => (value instanceof AbortSignal ? undefined : 'must be an AbortSignal'),
  max: wholeNumber(1, 10_000),
  poll: durationFrom(10),
  logger,
}

export const subscribeChecks: Readonly<Record<keyof SubscribeOptions, Check>> = {
  ...pollChecks,
  reader: textUpTo(500),
  lease: durationFrom(1_000, 86_400_000),
}

export const consumeChecks: Readonly<Record<keyof ConsumeOptions, Check>> = {
  ...pollChecks,
  reader: textUpTo(500),
  maxAttempts: wholeNumber(1),
}

export const followChecks: Readonly<Record<keyof FollowLogOptions, Check>> = {
  ...pollChecks,
  after: place,
  filter: plainObject,
}

/** A place in the log as SQL reads it. */
export function placeOf(at: Date | string): string
export function placeOf(at: Date | string | undefined): string | undefined
export function placeOf(at: Date | string | undefined): string | undefined {
  return at instanceof Date ? at.toISOString() : at
}
