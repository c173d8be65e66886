// Tells people how runs ended. It acknowledges once each message is a job, whose key names the event: an event that
// comes a second time finds the jobs that it has. A mail that cannot be sent is tried again, and delays no other.

import { defineJob, type Fencepost } from 'fencepost'
import { z } from 'zod'
import { completing } from '../database.ts'
import type { Consumer, Event } from './consumer.ts'

/** Who is told of what. */
const RECIPIENTS: Readonly<Record<string, readonly string[]>> = {
  'run.completed': ['customer'],
  'run.failed': ['support'],
  'run.compensated': ['customer', 'support'],
}

/** Sends one message; here that is a row. */
export const send = defineJob({
  type: 'notification.send',
  payload: z.object({ event: z.int(), recipient: z.string(), body: z.string() }),
  run: (message, ctx) =>
    completing(ctx, async (tx) => {
      const { event, recipient, body } = message
      await tx`insert into outbox.message (event_id, recipient, body) values (${event}, ${recipient}, ${body})`
    }),
})

export const notifications: Consumer = {
  name: 'notifications',
  filter: { kinds: Object.keys(RECIPIENTS) },
  async run(engine, options) {
    for await (const batch of engine.subscribe('notifications', options)) {
      await fanOut(engine, batch.events)
      await batch.ack()
    }
  },
  take: fanOut,
}

async function fanOut(engine: Fencepost, events: readonly Event[]): Promise<void> {
  const jobs = events.flatMap(({ id, kind, runId, workflow }) =>
    (RECIPIENTS[kind] ?? []).map((recipient) => ({
      job: send,
      payload: { event: id, recipient, body: `${workflow} ${runId}: ${kind}` },
      idempotencyKey: `${id}/${recipient}`,
    })),
  )
  await engine.enqueueMany(jobs)
}
