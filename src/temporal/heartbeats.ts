import type { Context } from '@temporalio/activity'

/** The longest pause between heartbeats, in ms: a cancellation reaches an activity with the answer to one. */
const LONGEST = 10_000

/** The heartbeats of an activity until `end()`, three in each heartbeat timeout, also while the database does not answer. */
export class Heartbeats {
  readonly #context: Context
  readonly #timer: NodeJS.Timeout
  #details: unknown

  constructor(context: Context) {
    const { heartbeatDetails, heartbeatTimeoutMs } = context.info
    const third = heartbeatTimeoutMs ? heartbeatTimeoutMs / 3 : LONGEST
    this.#context = context
    this.#details = heartbeatDetails
    this.#timer = setInterval(() => this.#beat(), Math.min(third, LONGEST))
  }

  /** Says at once, and from now on, what a later attempt, and people who look at the activity, should know. */
  say(details: unknown): void {
    this.#details = details
    this.#beat()
  }

  end(): void {
    clearInterval(this.#timer)
  }

  /** A local activity has none: it hears of its cancellation without. */
  #beat(): void {
    if (!this.#context.info.isLocal) this.#context.heartbeat(this.#details)
  }
}
