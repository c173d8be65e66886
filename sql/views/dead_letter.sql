-- Jobs that failed for good and wait for a decision: replay or discard.
create view fencepost.dead_letter as
select z.id as job_id, t.type,
       fencepost_private.shown(to_jsonb(z.final_error)) #>> '{}' as final_error,
       z.attempts, z.failed_at, n.priority::int as priority, z.tenant,
       fencepost_private.shown(z.details) as details, fencepost_private.shown(b.payload) as payload,
       b.idempotency_key, b.created_at, z.token, b.run_id, b.task_id
from fencepost_private.dead_letter z
join fencepost_private.lane n on n.lane_id = z.lane_id
join fencepost_private.job_type t on t.type_id = n.type_id
left join fencepost_private.job b on b.id = z.id;

comment on view fencepost.dead_letter is 'Jobs that failed for good, kept until fencepost.replay() or fencepost.discard().';
comment on column fencepost.dead_letter.job_id is 'The job.';
comment on column fencepost.dead_letter.type is 'Its type.';
comment on column fencepost.dead_letter.final_error is 'Message of its last error.';
comment on column fencepost.dead_letter.attempts is 'Attempts that counted.';
comment on column fencepost.dead_letter.failed_at is 'When it was dead-lettered.';
comment on column fencepost.dead_letter.priority is 'Its priority.';
comment on column fencepost.dead_letter.tenant is 'Whose job it is.';
comment on column fencepost.dead_letter.details is 'What else the worker said of the error: name, stack, cause.';
comment on column fencepost.dead_letter.payload is 'What its handler was given.';
comment on column fencepost.dead_letter.idempotency_key is 'The key under which it was enqueued once.';
comment on column fencepost.dead_letter.created_at is 'When it was enqueued.';
comment on column fencepost.dead_letter.token is 'Fencing token of its last attempt.';
comment on column fencepost.dead_letter.run_id is 'The workflow run it belongs to.';
comment on column fencepost.dead_letter.task_id is 'The task of that run.';
