-- Types of work and their settings. Depths are in fencepost.stats().
create view fencepost.types as
select t.type, t.paused, t.max_attempts, t.timeout, t.max_running, t.max_pending, t.accept,
       t.backoff_base, t.backoff_factor, t.backoff_cap, t.backoff_jitter, t.max_payload_bytes, t.payload_check::text as payload_check,
       t.publish_enqueued, t.publish_started, t.dead_letter_alert, t.keep_finished, t.overridden, t.created_at, t.updated_at, t.type_id
from fencepost_private.job_type t;

comment on view fencepost.types is 'Types of work and their settings; change them with fencepost.configure_type().';
comment on column fencepost.types.type is 'Its name.';
comment on column fencepost.types.paused is 'True stops claims; enqueues go on.';
comment on column fencepost.types.max_attempts is 'Attempts that count before a job is dead-lettered.';
comment on column fencepost.types.timeout is 'How long one attempt may run; null is no limit.';
comment on column fencepost.types.max_running is 'How many jobs may run at once; null is no limit.';
comment on column fencepost.types.max_pending is 'How many jobs may wait before enqueues are refused; null is no limit.';
comment on column fencepost.types.accept is 'False refuses enqueues.';
comment on column fencepost.types.backoff_base is 'Wait before the second attempt, before jitter.';
comment on column fencepost.types.backoff_factor is 'Growth of the wait with each further attempt.';
comment on column fencepost.types.backoff_cap is 'The longest wait between attempts.';
comment on column fencepost.types.backoff_jitter is 'Share of the wait that is drawn at random.';
comment on column fencepost.types.max_payload_bytes is 'Largest payload, and largest result, in bytes of JSON text.';
comment on column fencepost.types.payload_check is 'SQL/JSON path predicate that a payload must satisfy; null is none.';
comment on column fencepost.types.publish_enqueued is 'True stores a job.enqueued event for each job.';
comment on column fencepost.types.publish_started is 'True stores a job.started event for each attempt.';
comment on column fencepost.types.dead_letter_alert is 'Dead letters at which the shipped alert fires.';
comment on column fencepost.types.keep_finished is 'How long finished jobs are kept.';
comment on column fencepost.types.overridden is 'Settings that an operator has set: code leaves these alone.';
comment on column fencepost.types.created_at is 'When the type was first seen.';
comment on column fencepost.types.updated_at is 'When a setting last changed.';
comment on column fencepost.types.type_id is 'Internal number of the type.';
