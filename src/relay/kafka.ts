import type { OutboxEvent } from '../database/engine.ts'
import type { Broker } from './kafka/broker.ts'
import { Doubts } from './kafka/doubts.ts'
import { type KafkaMessage, messageOf, sizeOf } from './kafka/message.ts'
import { type KafkaClient, Sender } from './kafka/sender.ts'
import type { KafkaSettings } from './kafka/settings.ts'
import { InvalidTopicError, type TopicTemplate } from './kafka/topic.ts'
import { verdictOf } from './kafka/verdict.ts'
import type { Refused, Sink } from './sink.ts'

/** Where and how events are published. */
export interface KafkaSinkOptions {
  readonly brokers: readonly Broker[]
  readonly clientId: string
  readonly topics: TopicTemplate
  readonly settings: KafkaSettings
}

/** An event, and the message that it becomes. */
interface Item {
  readonly event: OutboxEvent
  readonly message: KafkaMessage
  readonly size: number
}

/**
 * Publishes events to Kafka. One request is under way at a time, so that what comes later is never there before what
 * comes earlier. What is refused together is sent again apart, by topics or in halves, until those are left alone that
 * are the reason; all others are published then.
 */
export class KafkaSink implements Sink {
  readonly name = 'kafka'
  readonly #topics: TopicTemplate
  readonly #settings: KafkaSettings
  readonly #sender: Sender
  readonly #doubts: Doubts

  constructor(kafka: KafkaClient, { brokers, clientId, topics, settings }: KafkaSinkOptions) {
    const { client, sendTimeout, patience } = settings
    this.#topics = topics
    this.#settings = settings
    this.#sender = new Sender(kafka, { brokers, clientId, timeout: sendTimeout, client })
    this.#doubts = new Doubts(patience)
  }

  async publish(events: readonly OutboxEvent[], signal: AbortSignal): Promise<readonly Refused[]> {
    const refused: Refused[] = []
    const items = events.flatMap((event) => this.#itemOf(event, refused))
    for (const request of requestsOf(items, this.#settings.requestBytes)) {
      await this.#send(request, refused, signal)
    }
    this.#doubts.settled()
    return refused
  }

  async close(): Promise<void> {
    this.#sender.close()
  }

  async #send(items: readonly Item[], refused: Refused[], signal: AbortSignal): Promise<void> {
    const topics = [...new Set(items.map(({ message }) => message.topic))]
    try {
      await this.#sender.send(
        items.map(({ message }) => message),
        signal,
      )
      this.#doubts.taken(topics)
    } catch (error) {
      if (signal.aborted) throw error
      const { about, final, reason } = verdictOf(error)
      const isOurs = about === 'none' || about === 'access'
      if (isOurs) this.#doubts.settled()
      if (isOurs || (!final && this.#doubts.canWait(topics))) {
        const where = about === 'none' ? '' : `, ${named(topics)}`
        throw new Error(`Kafka${where}: ${reason}`, { cause: error })
      }
      const parts = about === 'topic' ? byTopic(items, topics) : halves(items)
      if (parts.length > 1) {
        for (const part of parts) await this.#send(part, refused, signal)
        return
      }
      if (about === 'topic' && !final) this.#doubts.giveUp(topics)
      for (const { event, message } of items) {
        refused.push({ event, reason: `Kafka, topic ${message.topic}: ${reason}` })
      }
    }
  }

  /** None when no broker could take it. */
  #itemOf(event: OutboxEvent, refused: Refused[]): Item[] {
    try {
      const message = messageOf(event, this.#topics.topicOf(event))
      const size = sizeOf(message)
      if (size <= this.#settings.messageBytes) return [{ event, message, size }]
      refused.push({
        event,
        reason: `Kafka: its message has ${size} bytes, more than message-bytes`,
      })
    } catch (error) {
      if (!(error instanceof InvalidTopicError)) throw error
      refused.push({ event, reason: `Kafka: ${error.message}` })
    }
    return []
  }
}

/** How many topics a failure names. */
const NAMED = 5

function named(topics: readonly string[]): string {
  const some = topics.slice(0, NAMED).join(', ')
  if (topics.length === 1) return `topic ${some}`
  return `one of the topics ${some}${topics.length > NAMED ? ', …' : ''}`
}

function byTopic(items: readonly Item[], topics: readonly string[]): (readonly Item[])[] {
  return topics.map((topic) => items.filter(({ message }) => message.topic === topic))
}

function halves(items: readonly Item[]): (readonly Item[])[] {
  if (items.length === 1) return [items]
  const half = Math.ceil(items.length / 2)
  return [items.slice(0, half), items.slice(half)]
}

/** Cuts a batch into requests of at most so many bytes; a message that is larger goes alone. */
function requestsOf(items: readonly Item[], most: number): Item[][] {
  const requests: Item[][] = []
  let bytes = Number.POSITIVE_INFINITY
  for (const item of items) {
    bytes += item.size
    if (bytes > most) {
      requests.push([])
      bytes = item.size
    }
    requests.at(-1)?.push(item)
  }
  return requests
}
