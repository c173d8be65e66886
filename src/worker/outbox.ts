import type { Exchange } from '../database/engine.ts'
import type { Attempt } from './attempt.ts'

/** Results longer than this travel alone: a refusal then concerns no other, and no round grows huge. */
const LARGE = 32_000

/** Results on their way to the database, in the order in which handlers ended. */
export class Outbox {
  #waiting: Attempt[] = []
  /** Those whose jobs a transaction of their handlers may still hold. */
  #locked: Attempt[] = []
  #resting: Attempt[] = []
  /** Whether there is anything to send for them is being asked. */
  readonly #doubted = new Set<Attempt>()
  #oldestAt = 0

  get size(): number {
    return this.#waiting.length + this.#locked.length
  }

  /** True when nothing is left to send, now or later. */
  get isEmpty(): boolean {
    return this.size === 0 && this.#resting.length === 0 && this.#doubted.size === 0
  }

  /** True when some rest until {@link resume}. */
  get hasResting(): boolean {
    return this.#resting.length > 0
  }

  /** How many {@link take} may give. */
  get ready(): number {
    return this.#waiting.length
  }

  /** Since when the first of those has waited, by `performance.now()`. */
  get oldestAt(): number {
    return this.#oldestAt
  }

  add(attempt: Attempt): void {
    if (attempt.completing) {
      this.#locked.push(attempt)
      return
    }
    if (this.#waiting.length === 0) this.#oldestAt = performance.now()
    if (weight(attempt) > LARGE) attempt.alone = true
    this.#waiting.push(attempt)
  }

  /** The next ones to send: up to `max`, or a single one that travels alone. */
  take(max: number): Attempt[] {
    const waiting = this.#waiting
    let count = 0
    while (count < waiting.length && count < max && !waiting[count]?.alone) count++
    if (count === 0 && waiting.length > 0) count = 1
    this.#oldestAt = performance.now()
    if (count === waiting.length) {
      this.#waiting = []
      return waiting
    }
    return waiting.splice(0, count)
  }

  /** The next one that the database may not accept before a transaction of its handler has ended. */
  takeLocked(): Attempt | undefined {
    return this.#locked.shift()
  }

  /** They were not accepted: they are next again. One that waited for a transaction lets others try theirs. */
  putBack(attempts: readonly Attempt[]): void {
    this.#locked.push(...attempts.filter(({ completing }) => completing))
    this.#waiting.unshift(...attempts.filter(({ completing }) => !completing))
  }

  /** They cannot be accepted just now: they wait for {@link resume}. */
  rest(attempts: readonly Attempt[]): void {
    this.#resting.push(...attempts)
  }

  /** What rested is next again. */
  resume(): void {
    this.putBack(this.#resting)
    this.#resting = []
  }

  /** Nothing is sent of it until it is known whether it has ended already: see {@link know}. */
  doubt(attempt: Attempt): void {
    this.#doubted.add(attempt)
  }

  /** Whether it has ended is known, as far as it can be. */
  know(attempt: Attempt): void {
    this.#doubted.delete(attempt)
  }

  /** Takes out those that there is no use in sending. */
  drop(useless: (attempt: Attempt) => boolean): Attempt[] {
    const dropped = [...this.#waiting, ...this.#locked, ...this.#resting].filter(useless)
    if (dropped.length > 0) {
      this.#waiting = this.#waiting.filter((each) => !useless(each))
      this.#locked = this.#locked.filter((each) => !useless(each))
      this.#resting = this.#resting.filter((each) => !useless(each))
    }
    return dropped
  }
}

function weight({ ending }: Attempt): number {
  return ending?.kind === 'completed' ? (ending.result?.length ?? 0) : 0
}

/** Results as an exchange takes them. */
export function settlements(attempts: readonly Attempt[]): Pick<Exchange, 'completed' | 'failed'> {
  const completed: Columns = { job_ids: [], tokens: [] }
  const results: (string | null)[] = []
  const failed: Columns = { job_ids: [], tokens: [] }
  const errors: string[] = []
  const details: (string | null)[] = []
  const retryIn: (string | null)[] = []
  const permanent: boolean[] = []
  let hasResults = false
  for (const { job, ending } of attempts) {
    if (ending?.kind === 'completed') {
      completed.job_ids.push(job.job_id)
      completed.tokens.push(job.token)
      results.push(ending.result)
      hasResults ||= ending.result !== null
    } else if (ending?.kind === 'failed') {
      const { failure } = ending
      failed.job_ids.push(job.job_id)
      failed.tokens.push(job.token)
      errors.push(failure.error)
      details.push(failure.details)
      retryIn.push(failure.retryIn)
      permanent.push(failure.permanent)
    }
  }
  return {
    ...(completed.job_ids.length > 0
      ? { completed: hasResults ? { ...completed, results } : completed }
      : {}),
    ...(failed.job_ids.length > 0
      ? { failed: { ...failed, errors, details, retry_in: retryIn, permanent } }
      : {}),
  }
}

interface Columns {
  readonly job_ids: number[]
  readonly tokens: number[]
}
