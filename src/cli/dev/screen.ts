import type { Terminal } from '../terminal.ts'

/** How often a line of progress is written where none can be rewritten, in ms. */
const SELDOM = 5_000

/** Lines that stay, and below them one that changes. */
export class Screen {
  readonly #terminal: Terminal
  #current = ''
  #writtenAt = 0
  #over = false

  constructor(terminal: Terminal) {
    this.#terminal = terminal
  }

  /** A line that stays. */
  say(line: string): void {
    this.#clear()
    this.#terminal.write(`${line}\n`)
    this.#draw()
  }

  /** The line that changes: rewritten in a terminal, else written now and then. */
  progress(line: string, isLast = false): void {
    if (this.#over) return
    if (this.#terminal.interactive) {
      this.#clear()
      this.#current = line
      this.#draw()
      if (isLast) this.#keep()
      return
    }
    if (line === this.#current || (!isLast && Date.now() - this.#writtenAt < SELDOM)) return
    this.#current = line
    this.#writtenAt = Date.now()
    this.#terminal.write(`${line}\n`)
  }

  /** The line that changes stays as it is, and no other comes. */
  end(): void {
    this.#over = true
    this.#keep()
  }

  #keep(): void {
    if (!this.#terminal.interactive || this.#current === '') return
    this.#terminal.write('\n')
    this.#current = ''
  }

  #clear(): void {
    if (this.#terminal.interactive && this.#current !== '') this.#terminal.write('\r\u001b[K')
  }

  #draw(): void {
    if (!this.#terminal.interactive || this.#current === '') return
    const width = this.#terminal.width ?? 80
    this.#terminal.write([...this.#current].slice(0, width - 1).join(''))
  }
}
