import type { Duplex } from 'node:stream'

/** Type and length: what each message of the server begins with. */
const HEAD = 5
const COMMAND_COMPLETE = 'C'.charCodeAt(0)
const READY_FOR_QUERY = 'Z'.charCodeAt(0)
const IDLE = 'I'.charCodeAt(0)

/**
 * Whether a session is in a transaction, in the server's own words. postgres.js keeps them to itself, and of several
 * statements it tells those that gave rows; so we read along.
 */
export class TransactionState {
  /** After the last statement; true also for a transaction that has failed. */
  isOpen = false
  /** How many times the session was told to begin one, also when it was in one. */
  begun = 0
  /** The beginning of a message whose rest is to come. */
  #held: Buffer = Buffer.alloc(0)
  /** How many bytes are to come of a message that means nothing here. */
  #skipped = 0

  /** @param socket to the server, before anything was said */
  constructor(socket: Duplex) {
    socket.on('data', (chunk: Buffer) => this.#read(chunk))
  }

  #read(chunk: Buffer): void {
    const bytes = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk])
    let at = this.#skipped
    while (at + HEAD <= bytes.length) {
      const type = bytes[at]
      const end = at + 1 + bytes.readUInt32BE(at + 1)
      if (type === COMMAND_COMPLETE || type === READY_FOR_QUERY) {
        if (end > bytes.length) break
        this.#hear(type, bytes.subarray(at + HEAD, end))
      }
      at = end
    }
    this.#held = bytes.subarray(at)
    this.#skipped = Math.max(0, at - bytes.length)
  }

  #hear(type: number, said: Buffer): void {
    if (type === READY_FOR_QUERY) this.isOpen = said[0] !== IDLE
    else if (/^(BEGIN|START TRANSACTION)\0/.test(said.toString('latin1'))) this.begun++
  }
}
