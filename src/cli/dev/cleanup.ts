/** What must be undone at the end: the last first, each even when another failed. */
export class Cleanup implements AsyncDisposable {
  readonly #steps: (() => unknown)[] = []

  /** Remembers how something is undone. */
  add(step: () => unknown): void {
    this.#steps.push(step)
  }

  /** Remembers a resource, and gives it back. */
  use<Resource extends AsyncDisposable>(resource: Resource): Resource {
    this.add(() => resource[Symbol.asyncDispose]())
    return resource
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const errors: unknown[] = []
    for (let step = this.#steps.pop(); step !== undefined; step = this.#steps.pop()) {
      try {
        await step()
      } catch (error) {
        errors.push(error)
      }
    }
    if (errors.length > 0) throw errors[0]
  }
}
