import { expect } from 'vitest'
import type { TestApi } from './client.ts'

/** A message of a stream. One without data only names a place. */
export interface Message {
  readonly id: string | undefined
  // biome-ignore lint/suspicious/noExplicitAny: tests look into it
  readonly data: any
  readonly comment: string | undefined
}

/** A client of a stream of events, as EventSource is one. */
export class EventClient implements AsyncDisposable {
  readonly response: Response
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>
  readonly #abort: AbortController
  readonly #decoder = new TextDecoder()
  #text = ''
  /** What it would say as Last-Event-ID. */
  lastId: string | undefined

  private constructor(response: Response, abort: AbortController) {
    this.response = response
    this.#abort = abort
    this.#reader = (response.body as ReadableStream<Uint8Array>).getReader()
  }

  /** Connects; with a last id as a client that comes back. */
  static async open(api: Pick<TestApi, 'open'>, query = '', lastId?: string): Promise<EventClient> {
    const abort = new AbortController()
    const headers = lastId === undefined ? {} : { 'last-event-id': lastId }
    const response = await api.open(`/events/stream${query}`, headers, abort.signal)
    expect(response.status).toBe(200)
    const client = new EventClient(response, abort)
    client.lastId = (await client.message())?.id
    return client
  }

  /** The next message; undefined when the server has ended the stream. */
  async message(): Promise<Message | undefined> {
    for (;;) {
      const end = this.#text.indexOf('\n\n')
      if (end >= 0) {
        const block = this.#text.slice(0, end)
        this.#text = this.#text.slice(end + 2)
        return this.#parsed(block)
      }
      const { done, value } = await this.#reader.read()
      if (done) return undefined
      this.#text += this.#decoder.decode(value, { stream: true })
    }
  }

  /** The next so many events. */
  async events(count: number) {
    const events = []
    while (events.length < count) {
      const message = await this.message()
      if (message === undefined) throw new Error('the stream ended')
      if (message.data !== undefined) events.push(message.data)
    }
    return events
  }

  /** Breaks the connection, as a lost network does. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#abort.abort()
    await this.#reader.closed.catch(() => {})
  }

  #parsed(block: string): Message {
    const lines = block.split('\n')
    const value = (field: string) =>
      lines.find((line) => line.startsWith(`${field}: `))?.slice(field.length + 2)
    const [id, data] = [value('id'), value('data')]
    this.lastId = id ?? this.lastId
    const comment = lines.find((line) => line.startsWith(':'))
    return { id, data: data === undefined ? undefined : JSON.parse(data), comment }
  }
}
