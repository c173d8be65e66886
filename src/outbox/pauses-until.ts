import { Pauses } from './pauses.ts'

/** Pauses that end, and are no more, when a signal is aborted. */
export class PausesUntil extends Pauses implements Disposable {
  readonly #signal: AbortSignal
  readonly #end = () => this.end()

  /** @param poll the longest pause without events, in ms */
  constructor(poll: number, signal: AbortSignal) {
    super(poll)
    this.#signal = signal
    if (signal.aborted) this.end()
    else signal.addEventListener('abort', this.#end)
  }

  [Symbol.dispose](): void {
    this.#signal.removeEventListener('abort', this.#end)
  }
}
