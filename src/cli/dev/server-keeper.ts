import { setTimeout as sleep } from 'node:timers/promises'
import { Backoff } from '../../database/backoff.ts'
import type { EmbeddedServer } from '../../database/embedded.ts'

/** How often we look whether the server is alive, in ms. */
const PERIOD = 500

/** Starts a server of ours again, on its port, whenever it has died. Disposed of, it stops the server. */
export class ServerKeeper implements AsyncDisposable {
  readonly #server: EmbeddedServer
  readonly #say: (line: string) => void
  readonly #backoff = new Backoff()
  readonly #ending = new AbortController()
  readonly #keeping: Promise<void>

  constructor(server: EmbeddedServer, say: (line: string) => void) {
    this.#server = server
    this.#say = say
    this.#keeping = this.#keep()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ending.abort()
    this.#backoff.stop()
    await this.#keeping
    await this.#server.stop()
  }

  async #keep(): Promise<void> {
    const { signal } = this.#ending
    while (!signal.aborted) {
      await sleep(PERIOD, undefined, { signal }).catch(() => {})
      if (signal.aborted || this.#server.isAlive) continue
      this.#say('PostgreSQL has died. It is started again, and goes on where it was.')
      await this.#restart(signal)
    }
  }

  async #restart(signal: AbortSignal): Promise<void> {
    let told = ''
    while (!signal.aborted) {
      try {
        await this.#server.restart()
        this.#backoff.reset()
        this.#say(`PostgreSQL runs again (process ${this.#server.pid}).`)
        return
      } catch (error) {
        // The processes of the dead server may need a moment to notice.
        const { message } = error as Error
        if (message !== told) this.#say(message)
        told = message
        await this.#backoff.wait()
      }
    }
  }
}
