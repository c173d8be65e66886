import type { OutboxEvent } from '../../database/engine.ts'
import { jsonText } from '../../json-text.ts'

/** An event as Kafka gets it. */
export interface KafkaMessage {
  readonly topic: string
  readonly key: Buffer
  readonly value: Buffer
  readonly headers: Map<Buffer, Buffer>
  readonly timestamp: bigint
}

/** Bytes that a message takes beside its key, value and headers: lengths, offsets, and the batch around it. */
const FRAME = 100

/** An event as a message of a topic. */
export function messageOf(event: OutboxEvent, topic: string): KafkaMessage {
  return {
    topic,
    key: Buffer.from(keyOf(event)),
    value: Buffer.from(jsonText(documentOf(event))),
    headers: headersOf(event),
    timestamp: BigInt(event.at.getTime()),
  }
}

/** About how many bytes a message takes on the wire. */
export function sizeOf({ key, value, headers }: KafkaMessage): number {
  let size = FRAME + key.length + value.length
  for (const [name, text] of headers) size += name.length + text.length + 10
  return size
}

/** All events of a run, its jobs' too, have one key, and so have all of a job: Kafka keeps their order. */
function keyOf({ run_id, job_id, kind }: OutboxEvent): string {
  if (run_id !== null) return `run:${run_id}`
  return job_id === null ? kind : `job:${job_id}`
}

function headersOf({ id, kind, type, tenant }: OutboxEvent): Map<Buffer, Buffer> {
  const headers: [string, string | null][] = [
    ['fencepost-event-id', String(id)],
    ['fencepost-kind', kind],
    ['fencepost-type', type],
    ['fencepost-tenant', tenant || null],
    ['content-type', 'application/json'],
  ]
  return new Map(
    headers.flatMap(([name, value]) =>
      value === null ? [] : [[Buffer.from(name), Buffer.from(value)] as const],
    ),
  )
}

/** What is published of an event: the columns of `read_events`, less the position, which is the reader's alone. */
function documentOf({ position: _, ...event }: OutboxEvent): object {
  return event
}
