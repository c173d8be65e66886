-- A type is a name for a kind of work, with its settings. Code declares them, operators override them, and an
-- override stays until an operator takes it back: a deploy never undoes what was set in an incident.
create table fencepost_private.job_type (
  type_id        int generated always as identity primary key,
  type           text not null constraint job_type_name_unique unique
                 constraint job_type_name_well_formed check (type ~ '^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,199}$'),
  max_attempts   int not null default 5 constraint job_type_max_attempts_in_range check (max_attempts between 1 and 1000000),
  backoff_base   interval not null default '2 seconds' constraint job_type_backoff_base_positive check (backoff_base between '0' and '100 years'),
  backoff_factor double precision not null default 2 constraint job_type_backoff_factor_in_range check (backoff_factor between 1 and 100),
  backoff_cap    interval not null default '1 hour' constraint job_type_backoff_cap_positive check (backoff_cap between '0' and '100 years'),
  backoff_jitter double precision not null default 0.5 constraint job_type_backoff_jitter_in_range check (backoff_jitter between 0 and 1),
  timeout        interval constraint job_type_timeout_positive check (timeout > '0' and timeout <= '100 years'),
  max_running    int constraint job_type_max_running_positive check (max_running > 0),
  max_pending    int constraint job_type_max_pending_positive check (max_pending > 0),
  max_payload_bytes int not null default 1048576 constraint job_type_max_payload_in_range check (max_payload_bytes between 2 and 268435456),
  payload_check  jsonpath,
  accept         boolean not null default true,
  paused         boolean not null default false,
  publish_enqueued boolean not null default false,
  publish_started  boolean not null default false,
  dead_letter_alert int not null default 100 constraint job_type_alert_positive check (dead_letter_alert > 0),
  keep_finished  interval not null default '7 days' constraint job_type_keep_positive check (keep_finished between '0' and '100 years'),
  overridden     text[] not null default '{}',
  created_at     timestamptz not null default fencepost_private.now(),
  updated_at     timestamptz not null default fencepost_private.now()
);
-- gives the strictest limit of all, which most results keep
create index job_type_payload_idx on fencepost_private.job_type (max_payload_bytes);

comment on table fencepost_private.job_type is 'One row a type of work: its settings. Written by declare_type (from code) and configure_type (by operators).';
comment on column fencepost_private.job_type.type_id is 'Internal number of the type; its wake group is type_id modulo 16.';
comment on column fencepost_private.job_type.type is 'The name that producers and workers use, such as email.send.';
comment on column fencepost_private.job_type.max_attempts is 'Attempts that count before a job is dead-lettered; a job may carry its own.';
comment on column fencepost_private.job_type.backoff_base is 'Wait before the second attempt, before jitter.';
comment on column fencepost_private.job_type.backoff_factor is 'Growth of the wait with each further attempt.';
comment on column fencepost_private.job_type.backoff_cap is 'The longest wait between attempts.';
comment on column fencepost_private.job_type.backoff_jitter is 'Share of the wait that is drawn at random: 0.5 waits between half and all of it.';
comment on column fencepost_private.job_type.timeout is 'How long one attempt may run; null means as long as its lease is kept alive.';
comment on column fencepost_private.job_type.max_running is 'How many jobs of this type may run at once, over all workers; null is no limit.';
comment on column fencepost_private.job_type.max_pending is 'How many jobs may wait before enqueues are refused with JE007; null is no limit.';
comment on column fencepost_private.job_type.max_payload_bytes is 'Largest payload, and largest result, in bytes of JSON text.';
comment on column fencepost_private.job_type.payload_check is 'An SQL/JSON path predicate that a payload must satisfy, such as $.to like_regex "@".';
comment on column fencepost_private.job_type.accept is 'False refuses enqueues with JE007.';
comment on column fencepost_private.job_type.paused is 'True stops claims; enqueues go on.';
comment on column fencepost_private.job_type.publish_enqueued is 'Store a job.enqueued event for each job of this type.';
comment on column fencepost_private.job_type.publish_started is 'Store a job.started event for each attempt of this type.';
comment on column fencepost_private.job_type.dead_letter_alert is 'Dead letters of this type at which the shipped alert fires.';
comment on column fencepost_private.job_type.keep_finished is 'How long finished jobs are kept. Dead letters stay until someone decides.';
comment on column fencepost_private.job_type.overridden is 'Names of the settings that an operator has set: declarations from code leave these alone.';
comment on column fencepost_private.job_type.created_at is 'When the type was first seen.';
comment on column fencepost_private.job_type.updated_at is 'When a setting was last changed.';
