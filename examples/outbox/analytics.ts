// Throughput, latency and failure rate of each type, by the minute. What it adds up and the acknowledgement are
// one transaction of its own, so that nothing is counted twice.

import { json, type Queryable } from 'fencepost'
import type { Consumer, Event } from './consumer.ts'
import { untaken } from './tables.ts'

export const analytics: Consumer = {
  name: 'analytics',
  filter: { kinds: ['job.completed', 'job.retry_scheduled', 'job.dead_lettered'] },
  async run(engine, options) {
    for await (const batch of engine.subscribe('analytics', { max: 500, ...options })) {
      await engine.database.transaction(async (tx) => {
        await count(tx, batch.events)
        await batch.ack({ tx })
      })
    }
  },
  take: (engine, events) =>
    engine.database.transaction(async (tx) => count(tx, await untaken(tx, 'analytics', events))),
}

async function count(tx: Queryable, events: readonly Event[]): Promise<void> {
  const attempts = events.map(({ type, at, outcome, readyAt, startedAt }) => {
    return { type, at, outcome, ready_at: readyAt, started_at: startedAt }
  })
  await tx.query(
    `insert into outbox.minute as m (type, minute, completed, failed, waited, ran)
     select e.type, date_trunc('minute', e.at), count(*) filter (where e.outcome = 'completed'),
            count(*) filter (where e.outcome <> 'completed'), sum(e.started_at - e.ready_at), sum(e.at - e.started_at)
     from jsonb_to_recordset($1) as e(type text, at timestamptz, outcome text, ready_at timestamptz, started_at timestamptz)
     where e.started_at is not null
     group by 1, 2
     on conflict (type, minute) do update
     set completed = m.completed + excluded.completed, failed = m.failed + excluded.failed,
         waited = m.waited + excluded.waited, ran = m.ran + excluded.ran`,
    [json(attempts)],
  )
}
