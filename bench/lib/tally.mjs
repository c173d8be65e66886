import { now } from './clock.mjs'

/** What a worker's handler keeps of each job: enough to see loss, repetition and time. */
export class Tally {
  handled = 0
  repeated = 0
  firstAt
  lastAt
  #seen
  #receivedAt
  #expected
  #whenExpected

  /** `times` keeps each job's time of arrival. */
  constructor({ expected, times = false, whenExpected = () => {} }) {
    this.#expected = expected
    this.#seen = new Uint8Array(expected)
    this.#receivedAt = times ? new Float64Array(expected) : undefined
    this.#whenExpected = whenExpected
  }

  handle(n) {
    const at = now()
    this.firstAt ??= at
    if (this.#seen[n]) this.repeated++
    this.#seen[n] = 1
    if (this.#receivedAt) this.#receivedAt[n] ||= at
    this.handled++
    if (this.handled === this.#expected) {
      this.lastAt = at
      this.#whenExpected()
    }
  }

  report() {
    const { handled, repeated, firstAt, lastAt } = this
    return {
      handled,
      repeated,
      firstAt,
      lastAt,
      receivedAt: this.#receivedAt ? [...this.#receivedAt] : undefined,
    }
  }
}
