import { z } from '@hono/zod-openapi'
import { anyJson, interval } from './fields.ts'

// What answers about the event log look like, for the reference.

const id = z.int().openapi({ format: 'int64', example: 42 })
const time = z.iso.datetime().openapi({ example: '2030-01-01T00:00:00.000Z' })
const text = z.string()
const count = z.int()
const words = z.array(text).nullable()

/** A place in the event log. */
export const position = text.openapi({
  example: '7431.0-7440.0-981',
  description: 'A place in the event log: opaque.',
})

/** An event as readers of the log get it. */
export const LogEvent = z
  .object({
    position,
    id,
    kind: text.openapi({ example: 'job.completed' }),
    at: time,
    tenant: text,
    type: text.nullable().openapi({ description: 'The type of its job.' }),
    job_id: id.nullable(),
    run_id: id.nullable(),
    task_id: id.nullable(),
    workflow: text.nullable(),
    attempt: count.nullable(),
    outcome: text.nullable().openapi({ description: 'How the attempt ended, when it ends one.' }),
    worker: text.nullable(),
    ready_at: time.nullable(),
    started_at: time.nullable(),
    actor: text.nullable().openapi({ description: 'Who did it, for what people do.' }),
    data: anyJson,
  })
  .openapi('LogEvent')

/** A row of `fencepost.consumers`. */
export const Consumer = z
  .object({
    name: text.openapi({ example: 'billing' }),
    position: position.openapi({ description: 'Everything up to here is acknowledged.' }),
    lag_events: count.openapi({
      description: 'Events after that, also those its filter holds back; counted to 100,000.',
    }),
    lag_seconds: z.number().openapi({ description: 'Age of the oldest of them.' }),
    reader: text.nullable().openapi({ description: 'Who holds the lease; null when nobody does.' }),
    leased_until: time.nullable(),
    parked: count.openapi({ description: 'Events that were set aside.' }),
    kinds: words,
    types: words,
    tenant: text.nullable(),
    max_lag: interval.nullable(),
    created_at: time,
    moved_at: time.openapi({ description: 'When it last read or acknowledged.' }),
    expired_at: time.nullable().openapi({ description: 'Since when it is beyond max_lag.' }),
  })
  .openapi('Consumer')

/** A row of `fencepost.parked_events`. */
export const ParkedEvent = z
  .object({
    consumer: text,
    event_id: id,
    kind: text,
    type: text.nullable(),
    job_id: id.nullable(),
    run_id: id.nullable(),
    reason: text.openapi({ description: 'Why it was set aside.' }),
    times: count.openapi({ description: 'How often it was.' }),
    parked_at: time,
    again: z.boolean().openapi({ description: 'True when it is to be delivered again.' }),
    event: anyJson.openapi({ description: 'The event as it is read.' }),
  })
  .openapi('ParkedEvent')
