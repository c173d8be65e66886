-- Jobs that left their worker to wait: for a time, for resume(), or for both. They hold no lease and no slot.
create table fencepost_private.suspended (
  id           bigint primary key,
  lane_id      int not null,
  attempts     int not null,
  token        int not null,
  suspended_at timestamptz not null,
  wake_at      timestamptz,
  waits_for    text
);
create index suspended_wake_idx on fencepost_private.suspended (wake_at) where wake_at is not null;
comment on table fencepost_private.suspended is 'Jobs that wait for a time or a signal, off any worker.';
comment on column fencepost_private.suspended.id is 'The job.';
comment on column fencepost_private.suspended.lane_id is 'The lane it returns to.';
comment on column fencepost_private.suspended.attempts is 'Attempts that count so far: a suspended attempt does not.';
comment on column fencepost_private.suspended.token is 'The fencing token of its last claim.';
comment on column fencepost_private.suspended.suspended_at is 'Since when it waits.';
comment on column fencepost_private.suspended.wake_at is 'When it resumes by itself; null waits for resume().';
comment on column fencepost_private.suspended.waits_for is 'Name of the signal it waits for, if any.';
