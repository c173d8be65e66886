-- Jobs that failed for good. Nothing but replay or discard ever moves one.
create table fencepost_private.dead_letter (
  id          bigint primary key,
  lane_id     int not null,
  attempts    int not null,
  token       int not null,
  tenant      text not null default '',
  final_error text not null,
  details     jsonb,
  failed_at   timestamptz not null
);
create index dead_letter_lane_idx on fencepost_private.dead_letter (lane_id, id);
comment on table fencepost_private.dead_letter is 'Jobs that failed for good, with their final error. Kept until replayed or discarded.';
comment on column fencepost_private.dead_letter.id is 'The job.';
comment on column fencepost_private.dead_letter.lane_id is 'The lane it would return to.';
comment on column fencepost_private.dead_letter.attempts is 'Attempts that counted.';
comment on column fencepost_private.dead_letter.token is 'The fencing token of its last attempt.';
comment on column fencepost_private.dead_letter.tenant is 'The job''s tenant.';
comment on column fencepost_private.dead_letter.final_error is 'Message of the last error.';
comment on column fencepost_private.dead_letter.details is 'What else the worker said of it (name, stack, cause).';
comment on column fencepost_private.dead_letter.failed_at is 'When it was dead-lettered.';
