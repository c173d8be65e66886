-- How many jobs stand where, by type, without ever counting them. Each transaction that moves jobs appends what it
-- changed (depth_delta); maintain() folds deltas into a base that knows which snapshot it saw (depth_base). The sum
-- of the newest base and the deltas it had not seen is exact in any snapshot.
create table fencepost_private.depth_delta (
  type_id     int not null,
  xid         bigint not null,
  ready       int not null default 0,
  delayed     int not null default 0,
  parked      int not null default 0,
  running     int not null default 0,
  waiting     int not null default 0,
  dead_letter int not null default 0,
  enqueued    int not null default 0
);
create index depth_delta_idx on fencepost_private.depth_delta (type_id, xid);
alter table fencepost_private.depth_delta set (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_threshold = 1000000000);
-- No index is unique, and none is made for it: with a publication of all tables, deletes name the whole row. Costs nothing without.
alter table fencepost_private.depth_delta replica identity full;
comment on table fencepost_private.depth_delta is 'What each transaction changed in the number of jobs by place. Append-only; pruned once folded.';
comment on column fencepost_private.depth_delta.type_id is 'The type.';
comment on column fencepost_private.depth_delta.xid is 'Top transaction that made the change.';
comment on column fencepost_private.depth_delta.ready is 'Change of jobs that can be claimed.';
comment on column fencepost_private.depth_delta.delayed is 'Change of jobs that wait for their time.';
comment on column fencepost_private.depth_delta.parked is 'Change of jobs that wait for a slot.';
comment on column fencepost_private.depth_delta.running is 'Change of running jobs.';
comment on column fencepost_private.depth_delta.waiting is 'Change of suspended jobs.';
comment on column fencepost_private.depth_delta.dead_letter is 'Change of dead letters.';
comment on column fencepost_private.depth_delta.enqueued is 'Jobs enqueued; only grows.';

create table fencepost_private.depth_base (
  type_id     int not null,
  seq         bigint generated always as identity,
  x           bigint not null,
  xip         bigint[] not null,
  ready       bigint not null,
  delayed     bigint not null,
  parked      bigint not null,
  running     bigint not null,
  waiting     bigint not null,
  dead_letter bigint not null,
  enqueued    bigint not null
);
create index depth_base_idx on fencepost_private.depth_base (type_id, seq desc);
alter table fencepost_private.depth_base replica identity full;
comment on table fencepost_private.depth_base is 'Folded depth of each type and the snapshot it holds for: a register, newest first.';
comment on column fencepost_private.depth_base.type_id is 'The type.';
comment on column fencepost_private.depth_base.seq is 'Newest is highest.';
comment on column fencepost_private.depth_base.x is 'Deltas of transactions at or above this are not counted in.';
comment on column fencepost_private.depth_base.xip is 'Transactions below x whose deltas are not counted in either: they were in flight.';
comment on column fencepost_private.depth_base.ready is 'Jobs that can be claimed.';
comment on column fencepost_private.depth_base.delayed is 'Jobs that wait for their time.';
comment on column fencepost_private.depth_base.parked is 'Jobs that wait for a slot.';
comment on column fencepost_private.depth_base.running is 'Running jobs.';
comment on column fencepost_private.depth_base.waiting is 'Suspended jobs.';
comment on column fencepost_private.depth_base.dead_letter is 'Dead letters.';
comment on column fencepost_private.depth_base.enqueued is 'Jobs ever enqueued.';
