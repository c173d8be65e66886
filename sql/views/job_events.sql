-- The history of a job. job.enqueued and job.started are shown also where they are not stored (a type stores them
-- only when it publishes them): the first from the body, the second from each attempt. Those rows have no id.
create view fencepost.job_events as
select h.id, h.job_id, h.kind, h.attempt, w.name as worker, h.data, h.created_at, h.token, h.outcome, h.actor, h.tenant
from (
  select e.id, e.job_id, e.kind::text as kind, e.attempt, e.worker_id, fencepost_private.shown(e.data) as data, e.at as created_at,
         e.token, e.outcome::text as outcome, e.actor, e.tenant
  from fencepost_private.event e
  where e.job_id is not null
  union all
  select null, b.id, 'job.enqueued', null, null, null, b.created_at, null, null, null, b.tenant
  from fencepost_private.job b
  where not exists (select from fencepost_private.event s where s.job_id = b.id and s.kind = 'job.enqueued')
  union all
  select null, e.job_id, 'job.started', e.attempt, e.worker_id, null, e.started_at, e.token, null, null, e.tenant
  from fencepost_private.event e
  where e.job_id is not null and e.outcome is not null
    and not exists (select from fencepost_private.event s where s.job_id = e.job_id and s.kind = 'job.started' and s.token = e.token)
  union all
  select null, l.id, 'job.started', l.attempts, l.worker_id, null, l.started_at, l.token, null, null, l.tenant
  from fencepost_private.lease l
  where not exists (select from fencepost_private.event s where s.job_id = l.id and s.kind = 'job.started' and s.token = l.token)
) as h
left join fencepost_private.worker w on w.worker_id = h.worker_id;

comment on view fencepost.job_events is 'The history of jobs. Ask by job_id, and order by id: that is the order in which things happened to a job.';
comment on column fencepost.job_events.id is 'The event''s number; null for an enqueue or a start that is not stored as an event.';
comment on column fencepost.job_events.job_id is 'The job.';
comment on column fencepost.job_events.kind is 'What happened, such as job.completed.';
comment on column fencepost.job_events.attempt is 'Number of the attempt.';
comment on column fencepost.job_events.worker is 'Name of the worker.';
comment on column fencepost.job_events.data is 'The result, the error, or what else belongs to the event.';
comment on column fencepost.job_events.created_at is 'When it happened.';
comment on column fencepost.job_events.token is 'Fencing token of the attempt.';
comment on column fencepost.job_events.outcome is 'How the attempt ended, when the event ends one.';
comment on column fencepost.job_events.actor is 'Who did it, for what people do.';
comment on column fencepost.job_events.tenant is 'Whose job it is.';
