import type { Terminal } from './terminal.ts'

/** Lines of a terminal that are drawn again in their place. None may be wider than the screen. */
export class LiveText {
  readonly #terminal: Terminal
  #lines = 0

  constructor(terminal: Terminal) {
    this.#terminal = terminal
  }

  /** Draws the text where the one before stands. */
  draw(text: string): void {
    const back = this.#lines === 0 ? '' : `\u001b[${this.#lines}A\u001b[J`
    this.#terminal.write(`${back}${text}\n`)
    this.#lines = text.split('\n').length
  }

  /** Leaves what was drawn where it is: the next text comes below. */
  keep(): void {
    this.#lines = 0
  }
}
