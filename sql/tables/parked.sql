-- Jobs that wait for something besides a worker or a time: for their run to be resumed ('run'), for the gate before
-- their task ('approval'), for room in the map they are an item of ('map 12'), and, once limits by key exist, for a slot.
create table fencepost_private.parked (
  id        bigint primary key,
  lane_id   int not null,
  attempts  int not null,
  token     int not null,
  parked_at timestamptz not null,
  waits_for text not null,
  due_at    timestamptz
);
create index parked_waits_for_idx on fencepost_private.parked (waits_for, id);
comment on table fencepost_private.parked is 'Jobs that are held: by a paused run, a gate, a full map, a key or pool.';
comment on column fencepost_private.parked.id is 'The job.';
comment on column fencepost_private.parked.lane_id is 'The lane it returns to.';
comment on column fencepost_private.parked.attempts is 'Attempts that count so far.';
comment on column fencepost_private.parked.token is 'The fencing token of its last claim; 0 before the first.';
comment on column fencepost_private.parked.parked_at is 'Since when it waits.';
comment on column fencepost_private.parked.waits_for is 'What it waits for: run, approval, map and its task, or the key or pool.';
comment on column fencepost_private.parked.due_at is 'Until when it had to wait when it was parked, such as a retry: it is not ready before. Null for a job that was due.';
