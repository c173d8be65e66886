// Each completed job of a type that has a price is charged to its tenant. It reads prices and writes charges and
// balances in the transaction in which its events are read and acknowledged: exactly once, without a key.

import { json, type Queryable } from 'fencepost'
import type { Consumer, Event } from './consumer.ts'
import { untaken } from './tables.ts'

export const billing: Consumer = {
  name: 'billing',
  filter: { kinds: ['job.completed'] },
  run: (engine, options) => engine.consume('billing', (events, tx) => charge(tx, events), options),
  take: (engine, events) =>
    engine.database.transaction(async (tx) => charge(tx, await untaken(tx, 'billing', events))),
}

async function charge(tx: Queryable, events: readonly Event[]): Promise<void> {
  await tx.query(
    `with charged as (
       insert into outbox.charge (event_id, tenant, type, cents)
       select e.id, e.tenant, e.type, p.cents
       from jsonb_to_recordset($1) as e(id bigint, tenant text, type text)
       join outbox.price p using (type)
       returning tenant, cents
     )
     insert into outbox.account as a (tenant, cents)
     select tenant, sum(cents) from charged group by tenant
     on conflict (tenant) do update set cents = a.cents + excluded.cents`,
    [json(events.map(({ id, tenant, type }) => ({ id, tenant, type })))],
  )
}
