/** Those who wait for one thing. */
export class Waiters<Value = void> {
  #resolves: ((value: Value) => void)[] = []

  get any(): boolean {
    return this.#resolves.length > 0
  }

  wait(): Promise<Value> {
    return new Promise((resolve) => {
      this.#resolves.push(resolve)
    })
  }

  /** It happened. */
  release(value: Value): void {
    if (this.#resolves.length === 0) return
    for (const resolve of this.#resolves.splice(0)) resolve(value)
  }

  /** Those who wait now, to be released apart from those who come later. */
  split(): Waiters<Value> {
    const taken = new Waiters<Value>()
    taken.#resolves = this.#resolves.splice(0)
    return taken
  }
}
