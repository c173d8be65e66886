/** The first pause, and the longest, in ms. */
const FIRST = 50
const LONGEST = 2_000

/** Pauses between attempts: longer each time, never the same for two processes. */
export class Backoff {
  #attempts = 0
  #stopped = false
  #timer: NodeJS.Timeout | undefined
  #wake: (() => void) | undefined

  /** The length of the next pause, in ms. */
  next(): number {
    const cap = Math.min(LONGEST, FIRST * 2 ** this.#attempts++)
    return cap * (0.5 + Math.random() / 2)
  }

  wait(): Promise<void> {
    if (this.#stopped) return Promise.resolve()
    return new Promise((resolve) => {
      this.#wake = resolve
      this.#timer = setTimeout(resolve, this.next())
    })
  }

  reset(): void {
    this.#attempts = 0
  }

  /** Ends a pause under way, and allows no other. */
  stop(): void {
    this.#stopped = true
    clearTimeout(this.#timer)
    this.#wake?.()
  }
}
