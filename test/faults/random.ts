import { randomInt } from 'node:crypto'

/** Random choices that a seed repeats. The seed is printed; `FENCEPOST_SEED` sets it. */
export class Random {
  readonly seed: number
  #state: number

  constructor(seed = Number(process.env.FENCEPOST_SEED ?? randomInt(2 ** 31))) {
    this.seed = seed
    this.#state = seed
  }

  /** From 0 to below 1 (mulberry32). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0
    let bits = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state)
    bits = (bits + Math.imul(bits ^ (bits >>> 7), 61 | bits)) ^ bits
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32
  }

  /** A whole number from `from` to `to`, both included. */
  between(from: number, to: number): number {
    return from + Math.floor(this.next() * (to - from + 1))
  }

  pick<Item>(items: readonly Item[]): Item {
    return items[this.between(0, items.length - 1)] as Item
  }
}
