/** Wakes one who waits; a ring that nobody hears is kept for the next who waits. */
export class Bell {
  #rung = false
  #wake: (() => void) | undefined

  /** Wakes who waits, now or next. */
  ring(): void {
    this.#rung = true
    this.#wake?.()
  }

  /** Forgets a ring that was kept. */
  still(): void {
    this.#rung = false
  }

  /** Waits for a ring, at most so many ms; true when it rang. */
  async wait(ms: number): Promise<boolean> {
    if (!this.#rung) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, Math.min(ms, LONGEST))
        this.#wake = () => {
          clearTimeout(timer)
          resolve()
        }
      })
      this.#wake = undefined
    }
    const rung = this.#rung
    this.#rung = false
    return rung
  }
}

/** The longest that a timer can be set to, in ms. */
const LONGEST = 2 ** 31 - 1
