/** The windows in which ends of handlers are counted, in ms. */
const WINDOW = 50

/** How many handlers end in a short while: what can soon be started beyond the free slots. */
export class Load {
  #since = performance.now()
  #current = 0
  #last = 0

  /** A handler ended. */
  count(): void {
    this.#current++
  }

  /** How many ended in the last whole window, about. */
  perWindow(): number {
    const elapsed = performance.now() - this.#since
    if (elapsed >= WINDOW) {
      this.#last = Math.floor((this.#current * WINDOW) / elapsed)
      this.#current = 0
      this.#since += elapsed
    }
    return Math.max(this.#last, this.#current)
  }
}
