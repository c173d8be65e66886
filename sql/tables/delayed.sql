-- Jobs that wait for a time: enqueued with a delay, or waiting to be tried again.
create table fencepost_private.delayed (
  id           bigint primary key,
  available_at timestamptz not null,
  lane_id      int not null,
  attempts     int not null,
  token        int not null
);
create index delayed_due_idx on fencepost_private.delayed (available_at, id);
alter table fencepost_private.delayed set (
  autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
comment on table fencepost_private.delayed is 'Jobs that wait for their time: delayed ones and retries. maintain() and claims promote what is due.';
comment on column fencepost_private.delayed.id is 'The job.';
comment on column fencepost_private.delayed.available_at is 'When it becomes ready.';
comment on column fencepost_private.delayed.lane_id is 'The lane it will join.';
comment on column fencepost_private.delayed.attempts is 'Attempts that count so far.';
comment on column fencepost_private.delayed.token is 'The fencing token of its last claim; 0 before the first.';
