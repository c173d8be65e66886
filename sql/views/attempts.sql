-- Every attempt: those that ended, from the event that ended them, and those that run, from their lease. The key is
-- (job_id, token): attempt starts again at 1 after a replay, the token never does.
create view fencepost.attempts as
select a.job_id, a.attempt, a.token, w.name as worker, a.outcome, a.error, a.started_at, a.finished_at, a.ready_at, a.details, a.result, a.worker_id
from (
  select e.job_id, e.attempt, e.token, e.worker_id, e.outcome::text as outcome,
         case when e.outcome in ('failed', 'timed_out', 'lease_expired', 'cancelled') then fencepost_private.shown(e.data) ->> 'error' end as error,
         e.started_at, e.at as finished_at, e.ready_at,
         case when e.outcome in ('failed', 'timed_out', 'lease_expired', 'cancelled') then fencepost_private.shown(e.data) -> 'details' end as details,
         case e.outcome when 'completed' then fencepost_private.shown(e.data) end as result
  from fencepost_private.event e
  where e.job_id is not null and e.outcome is not null
  union all
  select l.id, l.attempts, l.token, l.worker_id, null, null, l.started_at, null, l.ready_at, null, null
  from fencepost_private.lease l
) as a
left join fencepost_private.worker w on w.worker_id = a.worker_id;

comment on view fencepost.attempts is 'Every attempt of every job, ended or running. Ask by job_id.';
comment on column fencepost.attempts.job_id is 'The job.';
comment on column fencepost.attempts.attempt is 'Its number; starts again at 1 after a replay.';
comment on column fencepost.attempts.token is 'Its fencing token: unique in the job for ever.';
comment on column fencepost.attempts.worker is 'Name of the worker that ran it.';
comment on column fencepost.attempts.outcome is 'completed, failed, lease_expired, timed_out, released, cancelled or suspended; null while it runs.';
comment on column fencepost.attempts.error is 'What went wrong.';
comment on column fencepost.attempts.started_at is 'When it was claimed.';
comment on column fencepost.attempts.finished_at is 'When it ended; null while it runs.';
comment on column fencepost.attempts.ready_at is 'Since when the job could have been claimed: started_at less this is the wait.';
comment on column fencepost.attempts.details is 'What else the worker said of the error.';
comment on column fencepost.attempts.result is 'What the handler returned.';
comment on column fencepost.attempts.worker_id is 'The worker (its incarnation).';
