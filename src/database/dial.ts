import type net from 'node:net'
import { Duplex } from 'node:stream'
import type { Address } from './address.ts'
import { openSocket } from './socket.ts'

/**
 * A stream for node-postgres that connects as {@link openSocket} does, to the hosts of an address in turn, with TLS
 * when asked for. Whoever made it can end it at once with `destroy()`, also when the other side is silent.
 */
export class Dial extends Duplex {
  readonly #address: Address
  readonly #attempt: number
  readonly #control = new AbortController()
  #socket: net.Socket | undefined

  /** @param attempt counts the dials of one user, so that each tries the next host */
  constructor(address: Address, attempt: number) {
    super()
    this.#address = address
    this.#attempt = attempt
  }

  /** Called by node-postgres, whose idea of host and port does not matter. */
  connect(): this {
    void this.#connect()
    return this
  }

  setNoDelay(): this {
    return this
  }

  setKeepAlive(): this {
    return this
  }

  ref(): this {
    this.#socket?.ref()
    return this
  }

  unref(): this {
    this.#socket?.unref()
    return this
  }

  override _read(): void {
    this.#socket?.resume()
  }

  override _write(chunk: Buffer, encoding: BufferEncoding, done: (error?: Error | null) => void) {
    if (this.#socket === undefined) done(new Error('not connected'))
    else this.#socket.write(chunk, encoding, done)
  }

  override _final(done: (error?: Error | null) => void): void {
    if (this.#socket === undefined || this.#socket.destroyed) done()
    else this.#socket.end(done)
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#control.abort(new Error('destroyed'))
    this.#socket?.destroy()
    done(error)
  }

  async #connect(): Promise<void> {
    const { hosts, connectTimeout } = this.#address
    const host = hosts[this.#attempt % hosts.length]
    if (host === undefined) throw new TypeError('an address has a host')
    const timer = Number.isFinite(connectTimeout)
      ? setTimeout(() => this.destroy(new Error('timeout expired')), connectTimeout)
      : undefined
    try {
      const socket = await openSocket(this.#address, host, this.#control.signal)
      this.#socket = socket
      socket.on('data', (chunk) => {
        if (!this.push(chunk)) socket.pause()
      })
      socket.on('error', (error) => this.destroy(error))
      socket.on('end', () => this.push(null))
      socket.on('close', () => this.destroy())
      this.emit('connect')
    } catch (error) {
      this.destroy(error as Error)
    } finally {
      clearTimeout(timer)
    }
  }
}
