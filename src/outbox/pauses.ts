import { Bell } from '../worker/bell.ts'

/** The first pause after a failure, and the longest, in ms. */
const FIRST_RETRY = 100
const LONGEST_RETRY = 15_000
/** The shortest pause when there is nothing to do, in ms. */
const SHORTEST = 20

/** The shortest that `poll` may be, in ms: less would only keep the database busy. */
export const SHORTEST_POLL = 10

/** How long one who looks for events again and again waits before the next look. */
export class Pauses {
  readonly #poll: number
  readonly #bell = new Bell()
  #idle = SHORTEST
  #failures = 0
  #ended = false

  /** @param poll the longest pause without events, in ms */
  constructor(poll: number) {
    this.#poll = poll
  }

  /** There were events: the next look is at once. */
  found(): void {
    this.#idle = SHORTEST
    this.#failures = 0
  }

  /** Nothing to do: longer each time. */
  async idle(): Promise<void> {
    this.#failures = 0
    await this.#wait(Math.min(this.#idle, this.#poll))
    this.#idle = Math.min(this.#idle * 2, this.#poll)
  }

  /** It failed: longer each time, never the same for two processes. */
  async failed(): Promise<void> {
    const longest = Math.min(LONGEST_RETRY, FIRST_RETRY * 2 ** this.#failures++)
    await this.#wait(longest * (0.5 + Math.random() / 2))
  }

  /** Ends a pause under way, and makes no other. */
  end(): void {
    this.#ended = true
    this.#bell.ring()
  }

  async #wait(ms: number): Promise<void> {
    if (!this.#ended) await this.#bell.wait(ms)
  }
}
