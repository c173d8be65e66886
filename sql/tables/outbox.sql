-- The event log as outbox: ticks, which put it in commit order, and who reads it.

-- A tick is what one snapshot saw: all transactions below x but those in xip had ended. Of any two snapshots one saw
-- all that the other saw, so ticks are in order by (x, flight). Two ticks may be equal. Append-only.
create table fencepost_private.event_tick (
  x       bigint not null,
  flight  int not null,
  xip     bigint[] not null,
  at      timestamptz not null,
  last_id bigint not null
);
create index event_tick_order_idx on fencepost_private.event_tick (x, flight);
create index event_tick_at_idx on fencepost_private.event_tick (at);
alter table fencepost_private.event_tick replica identity full;  -- see depth_delta
comment on table fencepost_private.event_tick is 'What snapshots saw of the event log, in order. A batch is what became visible from one tick to another.';
comment on column fencepost_private.event_tick.x is 'All transactions at or above it were not seen.';
comment on column fencepost_private.event_tick.flight is 'Less the number of those below it that were not seen either: of two ticks with the same x, the higher saw more.';
comment on column fencepost_private.event_tick.xip is 'Transactions below x that were in flight.';
comment on column fencepost_private.event_tick.at is 'When it was taken.';
comment on column fencepost_private.event_tick.last_id is 'No event that it saw has a higher id.';

create table fencepost_private.consumer (
  consumer_id int generated always as identity primary key,
  name        text not null constraint consumer_name_unique unique
              constraint consumer_name_well_formed check (name ~ '^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,199}$'),
  kinds       text[],
  types       text[],
  tenant      text,
  max_lag     interval constraint consumer_max_lag_positive check (max_lag > '0' and max_lag <= '100 years'),
  created_at  timestamptz not null,
  expired_at  timestamptz,
  pruned_seq  bigint not null default 0,
  deliveries  boolean not null default true
) with (fillfactor = 50);
comment on table fencepost_private.consumer is 'An independent reader of the event log.';
comment on column fencepost_private.consumer.consumer_id is 'Internal number.';
comment on column fencepost_private.consumer.name is 'Its name.';
comment on column fencepost_private.consumer.kinds is 'Kinds of events that it gets, exact or with a star at the end; null is all.';
comment on column fencepost_private.consumer.types is 'Types of jobs whose events it gets; null is all, and events of no job too.';
comment on column fencepost_private.consumer.tenant is 'The tenant whose events it gets; null is all.';
comment on column fencepost_private.consumer.max_lag is 'For how long it may have something to read; beyond it the log is no longer kept for it. Null is no limit.';
comment on column fencepost_private.consumer.created_at is 'When it was created.';
comment on column fencepost_private.consumer.expired_at is 'Since when it is beyond max_lag; until it is moved with seek_consumer.';
comment on column fencepost_private.consumer.pruned_seq is 'Older rows of consumer_state have been removed up to here.';
comment on column fencepost_private.consumer.deliveries is 'False for webhooks: they get no events of jobs that deliver to webhooks, since each would make another.';

-- Where each consumer stands: a register, the row with the highest seq holds. Two sessions cannot write the same seq.
create table fencepost_private.consumer_state (
  consumer_id  int not null,
  seq          bigint not null,
  position     fencepost_private.log_position not null,
  sent         fencepost_private.log_position,
  after_sent   fencepost_private.log_position,
  token        bigint not null default 0,
  reader       text,
  leased_until timestamptz,
  at           timestamptz not null,
  constraint consumer_state_pkey primary key (consumer_id, seq)
);
comment on table fencepost_private.consumer_state is 'Where consumers stand: append-only, newest first, pruned.';
comment on column fencepost_private.consumer_state.consumer_id is 'The consumer.';
comment on column fencepost_private.consumer_state.seq is '1, 2, 3 … within the consumer.';
comment on column fencepost_private.consumer_state.position is 'Everything up to here is acknowledged.';
comment on column fencepost_private.consumer_state.sent is 'The last event that was handed to the reader under this token.';
comment on column fencepost_private.consumer_state.after_sent is 'Where to go on once that one is acknowledged.';
comment on column fencepost_private.consumer_state.token is 'Fencing token of the lease: it grows with every reader that takes it.';
comment on column fencepost_private.consumer_state.reader is 'Who holds the lease.';
comment on column fencepost_private.consumer_state.leased_until is 'Until when; null when nobody does.';
comment on column fencepost_private.consumer_state.at is 'When this row was written.';

-- Events that a consumer set aside because they cannot be delivered: kept whole, so that the log need not be.
create table fencepost_private.parked_event (
  consumer_id int not null,
  event_id    bigint not null,
  event       jsonb not null,
  reason      text not null,
  times       int not null default 1,
  parked_at   timestamptz not null,
  again       boolean not null default false,
  given       bigint,
  constraint parked_event_pkey primary key (consumer_id, event_id)
);
create index parked_event_again_idx on fencepost_private.parked_event (consumer_id, event_id) where again;
comment on table fencepost_private.parked_event is 'Events that a consumer set aside with a reason.';
comment on column fencepost_private.parked_event.consumer_id is 'The consumer.';
comment on column fencepost_private.parked_event.event_id is 'The event.';
comment on column fencepost_private.parked_event.event is 'The event as it would be read.';
comment on column fencepost_private.parked_event.reason is 'Why it could not be delivered.';
comment on column fencepost_private.parked_event.times is 'How often it was set aside.';
comment on column fencepost_private.parked_event.parked_at is 'When it last was.';
comment on column fencepost_private.parked_event.again is 'True when it is to be delivered again.';
comment on column fencepost_private.parked_event.given is 'Token of the lease under which it was, and is to be acknowledged; null until then.';
