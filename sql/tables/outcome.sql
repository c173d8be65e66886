-- What became of jobs and attempts, counted from the log by maintain(): totals for metrics, minutes for rates.

create table fencepost_private.outcome_base (
  seq bigint generated always as identity primary key,
  x   bigint not null,
  xip bigint[] not null
);
comment on table fencepost_private.outcome_base is 'How far the log is counted: a register, newest first, with the meaning of x and xip in depth_base.';
comment on column fencepost_private.outcome_base.seq is 'Newest is highest.';
comment on column fencepost_private.outcome_base.x is 'Events of transactions at or above this are not counted yet.';
comment on column fencepost_private.outcome_base.xip is 'Transactions below x whose events are not counted yet either: they were in flight.';

create table fencepost_private.outcome_total (
  type_id      int not null,
  kind         fencepost_private.event_kind not null,
  outcome      fencepost_private.attempt_outcome,
  seq          bigint generated always as identity,
  events       bigint not null,
  wait_seconds double precision not null,
  wait_counts  bigint[] not null,
  run_seconds  double precision not null,
  run_counts   bigint[] not null
);
create index outcome_total_idx on fencepost_private.outcome_total (type_id, kind, outcome, seq desc);
alter table fencepost_private.outcome_total replica identity full;  -- see depth_delta
comment on table fencepost_private.outcome_total is 'Events of each type, kind and outcome since the beginning, with how long they waited and ran: a register, newest first.';
comment on column fencepost_private.outcome_total.type_id is 'The type.';
comment on column fencepost_private.outcome_total.kind is 'The kind of event.';
comment on column fencepost_private.outcome_total.outcome is 'How the attempt ended; null when the event ends none.';
comment on column fencepost_private.outcome_total.seq is 'Newest is highest.';
comment on column fencepost_private.outcome_total.events is 'How many.';
comment on column fencepost_private.outcome_total.wait_seconds is 'Sum of the times that the attempts had waited.';
comment on column fencepost_private.outcome_total.wait_counts is 'Attempts by wait: one count for each bucket of duration_bounds(), and one for what is above.';
comment on column fencepost_private.outcome_total.run_seconds is 'Sum of the times that the attempts ran.';
comment on column fencepost_private.outcome_total.run_counts is 'Attempts by run time, in the same buckets.';

create table fencepost_private.type_minute (
  type_id       int not null,
  minute        timestamptz not null,
  enqueued      bigint not null default 0,
  completed     bigint not null default 0,
  failed        bigint not null default 0,
  dead_lettered bigint not null default 0,
  constraint type_minute_pkey primary key (type_id, minute)
) with (fillfactor = 50);
comment on table fencepost_private.type_minute is 'What happened in each of the last minutes, by type: for rates and charts.';
comment on column fencepost_private.type_minute.type_id is 'The type.';
comment on column fencepost_private.type_minute.minute is 'Beginning of the minute.';
comment on column fencepost_private.type_minute.enqueued is 'Jobs enqueued, by the minute in which they were counted.';
comment on column fencepost_private.type_minute.completed is 'Jobs completed.';
comment on column fencepost_private.type_minute.failed is 'Attempts that failed, timed out or lost their worker.';
comment on column fencepost_private.type_minute.dead_lettered is 'Jobs dead-lettered.';
