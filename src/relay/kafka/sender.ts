import type { Producer, ProducerOptions } from '@platformatic/kafka'
import type { Broker } from './broker.ts'
import type { KafkaMessage } from './message.ts'

/** The package of the client, loaded when it is there. */
export type KafkaClient = typeof import('@platformatic/kafka')

/** How a sender sends. */
export interface SenderOptions {
  readonly brokers: readonly Broker[]
  readonly clientId: string
  /** How long `send` takes at most, in ms. */
  readonly timeout: number
  readonly client: Partial<ProducerOptions<Buffer, Buffer, Buffer, Buffer>>
}

type KafkaProducer = Producer<Buffer, Buffer, Buffer, Buffer>

/** How often the client itself repeats a request, and after which pause in ms: enough for a change of leader. */
const RETRIES = 2 // fewer, and the client would repeat for ever
const RETRY_DELAY = 100

/**
 * Sends messages, one request after another, through an idempotent producer that waits for all replicas in sync.
 *
 * A producer that has failed is thrown away with its connections. What it sent may or may not be there, and only a
 * new one, with a new number, begins its counting anew: a broker would take the next messages under a count that it
 * has seen for a repetition, and drop them. So a failure costs duplicates, never messages.
 */
export class Sender {
  readonly #kafka: KafkaClient
  readonly #options: SenderOptions
  #producer: KafkaProducer | undefined

  constructor(kafka: KafkaClient, options: SenderOptions) {
    this.#kafka = kafka
    this.#options = options
  }

  /** Resolves when brokers hold all of them; rejects within the deadline, or when the signal is aborted. */
  async send(messages: readonly KafkaMessage[], signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    this.#producer ??= this.#newProducer()
    const sent = this.#producer.send({ messages: [...messages] })
    try {
      await settled(sent, this.#options.timeout, signal)
    } catch (error) {
      this.close()
      throw error
    }
  }

  /** Cuts all connections. The next `send` makes others. */
  close(): void {
    const producer = this.#producer
    this.#producer = undefined
    if (producer === undefined) return
    const connections = [...producer.connections]
    Promise.resolve(producer.close(true)).catch(() => {})
    // The client itself waits until what it wrote was taken: where nobody takes it, for ever.
    for (const [, connection] of connections) connection.socket?.destroy()
  }

  #newProducer(): KafkaProducer {
    const { brokers, clientId, timeout, client } = this.#options
    const producer: KafkaProducer = new this.#kafka.Producer({
      clientId,
      bootstrapBrokers: [...brokers],
      idempotent: true,
      producerId: -1n, // none yet
      producerEpoch: -1,
      acks: this.#kafka.ProduceAcks.ALL,
      partitioner: this.#kafka.compatibilityPartitioner, // as Java's: other producers' keys meet ours
      retries: RETRIES,
      retryDelay: RETRY_DELAY,
      timeout: Math.ceil(timeout / 2),
      connectTimeout: Math.ceil(timeout / 4),
      requestTimeout: timeout,
      ...client,
    })
    // Every request learns of it by itself; an event that nobody hears would end the process.
    producer.on('client:broker:connect', ({ connection }) => connection.on('error', () => {}))
    return producer
  }
}

/** Waits for a promise, but no longer than that, nor beyond an abort. */
async function settled(
  promise: Promise<unknown>,
  timeout: number,
  signal: AbortSignal,
): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  let aborted: () => void = () => {}
  const over = new Promise<never>((_, reject) => {
    const late = new Error(`the brokers did not answer within ${timeout} ms`)
    timer = setTimeout(reject, timeout, late)
    aborted = () => reject(signal.reason)
    signal.addEventListener('abort', aborted)
  })
  try {
    await Promise.race([promise, over])
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', aborted)
  }
}
