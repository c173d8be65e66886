-- Jobs that can be claimed now. The hottest table: narrow rows, inserted once, deleted once, never updated.
-- Inside a lane the order is (xid, id): the transaction that inserted the row, then the job. Claims start at a
-- lane's watermark (see lane_hint), so rows that died below it cost nothing, however long they linger.
create table fencepost_private.ready (
  id       bigint primary key,
  xid      bigint not null,
  lane_id  int not null,
  attempts int not null,
  token    int not null,
  ready_at timestamptz not null
);
create index ready_lane_idx on fencepost_private.ready (lane_id, xid, id);
alter table fencepost_private.ready set (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0,
  autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000,
  autovacuum_analyze_threshold = 1000000000);

comment on table fencepost_private.ready is 'Jobs that can be claimed now, in lanes. Insert once, delete once, never updated.';
comment on column fencepost_private.ready.id is 'The job.';
comment on column fencepost_private.ready.xid is 'Top transaction that put it here; with id, its order in the lane.';
comment on column fencepost_private.ready.lane_id is 'The lane it waits in.';
comment on column fencepost_private.ready.attempts is 'Attempts that count so far.';
comment on column fencepost_private.ready.token is 'The fencing token of its last claim; 0 before the first.';
comment on column fencepost_private.ready.ready_at is 'Since when it could have been claimed.';
