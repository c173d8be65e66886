/**
 * How long refusals that may pass are waited for. The first of them in a row starts the clock; once the patience is
 * over they count as final, and for a topic that was given up so at once, until it takes something.
 */
export class Doubts {
  readonly #patience: number
  #since: number | undefined
  readonly #hopeless = new Set<string>()

  /** @param patience in ms */
  constructor(patience: number) {
    this.#patience = patience
  }

  /** Whether a refusal of messages for these topics is to be waited for. */
  canWait(topics: Iterable<string>): boolean {
    for (const topic of topics) if (this.#hopeless.has(topic)) return false
    this.#since ??= performance.now()
    return performance.now() - this.#since < this.#patience
  }

  /** Messages for these topics were given up. */
  giveUp(topics: Iterable<string>): void {
    for (const topic of topics) this.#hopeless.add(topic)
  }

  /** Messages for these topics were taken. */
  taken(topics: Iterable<string>): void {
    for (const topic of topics) this.#hopeless.delete(topic)
  }

  /** All that was to be published is settled, or something else is wrong now: no row of refusals goes on. */
  settled(): void {
    this.#since = undefined
  }
}
