-- Jobs that are due but wait for a slot of a key or pool. Empty until limits by key exist; part of the engine from
-- the first day so that every place is counted, listed and checked alike.
create table fencepost_private.parked (
  id        bigint primary key,
  lane_id   int not null,
  attempts  int not null,
  token     int not null,
  parked_at timestamptz not null,
  waits_for text not null
);
comment on table fencepost_private.parked is 'Jobs that are due but wait for a free slot of a key or pool.';
comment on column fencepost_private.parked.id is 'The job.';
comment on column fencepost_private.parked.lane_id is 'The lane it returns to.';
comment on column fencepost_private.parked.attempts is 'Attempts that count so far.';
comment on column fencepost_private.parked.token is 'The fencing token of its last claim; 0 before the first.';
comment on column fencepost_private.parked.parked_at is 'Since when it waits.';
comment on column fencepost_private.parked.waits_for is 'The key or pool whose slot it waits for.';
