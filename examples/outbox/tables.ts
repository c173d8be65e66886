import type { Queryable } from 'fencepost'
import { sql } from '../database.ts'
import type { Event } from './consumer.ts'

/** Makes the tables of the three consumers, with a price list. */
export async function prepare(): Promise<void> {
  await sql.unsafe(`
    create schema if not exists outbox;
    create table if not exists outbox.minute (
      type      text,
      minute    timestamptz,
      completed int not null,
      failed    int not null,
      waited    interval not null,
      ran       interval not null,
      primary key (type, minute)
    );
    create or replace view outbox.by_type as
    select type, sum(completed + failed) as attempts, sum(completed + failed)::float8 / count(*) as per_minute,
           sum(failed)::float8 / sum(completed + failed) as failure_rate,
           sum(waited) / sum(completed + failed) as waited, sum(ran) / sum(completed + failed) as ran
    from outbox.minute group by type;
    create table if not exists outbox.price (
      type  text primary key,
      cents int not null
    );
    create table if not exists outbox.charge (
      event_id bigint not null,
      tenant   text not null,
      type     text not null,
      cents    int not null
    );
    create table if not exists outbox.account (
      tenant text primary key,
      cents  bigint not null
    );
    create table if not exists outbox.message (
      event_id  bigint,
      recipient text,
      body      text not null,
      primary key (event_id, recipient)
    );
    create table if not exists outbox.taken (
      consumer text,
      event_id bigint,
      primary key (consumer, event_id)
    );
    insert into outbox.price values ('order.charge', 30), ('parcel.ship', 120), ('diamonds.chunk', 5)
    on conflict do nothing`)
}

/** Those that a consumer has not had, remembered with what the transaction does for them. */
export async function untaken<Each extends Event>(
  tx: Queryable,
  consumer: string,
  events: readonly Each[],
): Promise<Each[]> {
  const rows = await tx.query<{ event_id: number }>(
    `insert into outbox.taken (consumer, event_id) select $1, id from unnest($2::bigint[]) as id
     on conflict do nothing returning event_id`,
    [consumer, events.map(({ id }) => id)],
  )
  const fresh = new Set(rows.map(({ event_id }) => event_id))
  return events.filter(({ id }) => fresh.has(id))
}
