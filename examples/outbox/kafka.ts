// The same consumers behind Kafka, each as a consumer group, where `fencepost relay kafka` publishes the log. What
// comes is at least once: each event's id tells whether it was here before. Not tried with a real broker in our tests.

import type { Fencepost, PollOptions } from 'fencepost'
import type { Consumer, Event } from './consumer.ts'

/** An event as the relay publishes it. */
interface Published {
  readonly id: number
  readonly kind: string
  readonly at: string
  readonly tenant: string
  readonly type: string | null
  readonly run_id: number | null
  readonly workflow: string | null
  readonly outcome: Event['outcome']
  readonly ready_at: string | null
  readonly started_at: string | null
}

/** Reads the topics of the kinds that a consumer wants, from the first message on, until the signal is aborted. */
export async function followTopics(
  engine: Fencepost,
  consumer: Consumer,
  { signal }: PollOptions,
): Promise<void> {
  const { Consumer: Group, stringDeserializers } = await import('@platformatic/kafka')
  const group = new Group({
    clientId: `fencepost-${consumer.name}`,
    groupId: consumer.name,
    bootstrapBrokers: (process.env.KAFKA_BROKERS ?? 'localhost:9092').split(','),
    deserializers: stringDeserializers,
    autocreateTopics: true,
  })
  const stream = await group.consume({
    topics: consumer.filter.kinds.map((kind) => `fencepost.${kind}`),
    mode: 'committed',
    fallbackMode: 'earliest',
    autocommit: false,
  })
  signal?.addEventListener('abort', () => void stream.close(), { once: true })
  for await (const message of stream) {
    await consumer.take(engine, [eventOf(JSON.parse(message.value))])
    await message.commit()
  }
  await group.close()
}

function eventOf({ run_id, ready_at, started_at, at, ...event }: Published): Event {
  return {
    ...event,
    at: new Date(at),
    runId: run_id,
    readyAt: ready_at === null ? null : new Date(ready_at),
    startedAt: started_at === null ? null : new Date(started_at),
  }
}
