-- Where every job stands: one arm for each place, each with a constant status, so that a question about one status
-- or one job reads one small table or one index entry, never all of them.
create view fencepost_private.job_place as
select r.id, 'pending'::text as status, r.lane_id, r.attempts, r.token, r.ready_at as since, r.ready_at as available_at,
       null::int as worker_id, null::timestamptz as started_at, null::timestamptz as finished_at, null::text as waits_for
from fencepost_private.ready r
union all
select d.id, 'pending', d.lane_id, d.attempts, d.token, null, d.available_at, null, null, null, null
from fencepost_private.delayed d
union all
select p.id, 'pending', p.lane_id, p.attempts, p.token, p.parked_at, p.due_at, null, null, null, p.waits_for
from fencepost_private.parked p
union all
select l.id, 'running', l.lane_id, l.attempts, l.token, l.started_at, null, l.worker_id, l.started_at, null, null
from fencepost_private.lease l
union all
select s.id, 'waiting', s.lane_id, s.attempts, s.token, s.suspended_at, s.wake_at, null, null, null, s.waits_for
from fencepost_private.suspended s
union all
select z.id, 'dead_letter', z.lane_id, z.attempts, z.token, z.failed_at, null, null, null, z.failed_at, null
from fencepost_private.dead_letter z
union all
select e.job_id, 'completed', e.lane_id, e.attempt, e.token, e.at, null, e.worker_id, e.started_at, e.at, null
from fencepost_private.event e where e.job_id is not null and e.kind = 'job.completed'
union all
select e.job_id, 'cancelled', e.lane_id, e.attempt, e.token, e.at, null, e.worker_id, e.started_at, e.at, null
from fencepost_private.event e where e.job_id is not null and e.kind = 'job.cancelled'
union all
select e.job_id, 'discarded', e.lane_id, e.attempt, e.token, e.at, null, e.worker_id, e.started_at, e.at, null
from fencepost_private.event e where e.job_id is not null and e.kind = 'job.discarded';

comment on view fencepost_private.job_place is 'Every job and the place that holds it, or the event that ended it.';
comment on column fencepost_private.job_place.id is 'The job.';
comment on column fencepost_private.job_place.status is 'pending, running, waiting, dead_letter, completed, cancelled or discarded.';
comment on column fencepost_private.job_place.lane_id is 'The lane it stands in, or stood in when it ended.';
comment on column fencepost_private.job_place.attempts is 'Attempts that count.';
comment on column fencepost_private.job_place.token is 'Fencing token of its last claim; 0 before the first.';
comment on column fencepost_private.job_place.since is 'Since when it stands there; null for a delayed job.';
comment on column fencepost_private.job_place.available_at is 'When it could or can be claimed, or when it resumes.';
comment on column fencepost_private.job_place.worker_id is 'The worker that runs it or ended it.';
comment on column fencepost_private.job_place.started_at is 'When its last attempt was claimed.';
comment on column fencepost_private.job_place.finished_at is 'When it ended or was dead-lettered.';
comment on column fencepost_private.job_place.waits_for is 'The signal, key or pool that it waits for.';

-- The jobs as people see them. What is not selected is not looked up: result, last_error and the like are
-- subqueries that only a query which names them pays for.
create view fencepost.jobs as
select p.id, t.type, p.status, p.attempts, coalesce(b.max_attempts, t.max_attempts) as max_attempts, n.priority::int as priority,
       fencepost_private.shown(b.payload) as payload,
       case p.status when 'completed' then (
         select fencepost_private.shown(e.data) from fencepost_private.event e
         where e.job_id = p.id and e.kind = 'job.completed' order by e.id desc limit 1
       ) end as result,
       (select fencepost_private.shown(e.data) ->> 'error' from fencepost_private.event e
        where e.job_id = p.id and e.outcome in ('failed', 'timed_out', 'lease_expired') order by e.id desc limit 1) as last_error,
       p.available_at,
       case p.status when 'running' then (select l.leased_until from fencepost.leases l where l.job_id = p.id) end as leased_until,
       (select w.name from fencepost_private.worker w where w.worker_id = p.worker_id) as worker,
       b.idempotency_key, b.tenant, b.created_at,
       greatest(b.created_at, p.since, (
         select e.at from fencepost_private.event e where e.job_id = p.id order by e.id desc limit 1
       )) as updated_at,
       p.started_at, p.finished_at, p.waits_for, b.headers, b.timeout, p.token,
       (select fencepost_private.shown(g.value) from fencepost_private.progress g where g.job_id = p.id) as progress,
       b.run_id, b.task_id
from fencepost_private.job_place p
join fencepost_private.lane n on n.lane_id = p.lane_id
join fencepost_private.job_type t on t.type_id = n.type_id
join fencepost_private.job b on b.id = p.id;

comment on view fencepost.jobs is 'Every job, with its status. Ask by id or by status: each reads one small table or one index entry.';
comment on column fencepost.jobs.id is 'The job''s number.';
comment on column fencepost.jobs.type is 'What kind of work.';
comment on column fencepost.jobs.status is 'pending, running, waiting, dead_letter, completed, cancelled or discarded.';
comment on column fencepost.jobs.attempts is 'Attempts that count against max_attempts; reset by replay.';
comment on column fencepost.jobs.max_attempts is 'Attempts before it is dead-lettered: its own limit or its type''s.';
comment on column fencepost.jobs.priority is '0 to 9, higher is claimed first.';
comment on column fencepost.jobs.payload is 'What its handler is given.';
comment on column fencepost.jobs.result is 'What its handler returned, once completed.';
comment on column fencepost.jobs.last_error is 'Message of the last attempt that failed, if any did.';
comment on column fencepost.jobs.available_at is 'Pending: when it could or can be claimed. Waiting: when it resumes by itself.';
comment on column fencepost.jobs.leased_until is 'Running: before this it cannot be taken back from its worker.';
comment on column fencepost.jobs.worker is 'Name of the worker that runs it or that ended it.';
comment on column fencepost.jobs.idempotency_key is 'The key under which it was enqueued once.';
comment on column fencepost.jobs.tenant is 'Whose job it is.';
comment on column fencepost.jobs.created_at is 'When it was enqueued.';
comment on column fencepost.jobs.updated_at is 'When it last changed.';
comment on column fencepost.jobs.started_at is 'When its present or final attempt was claimed.';
comment on column fencepost.jobs.finished_at is 'When it ended or was dead-lettered.';
comment on column fencepost.jobs.waits_for is 'The signal, key or pool that it waits for.';
comment on column fencepost.jobs.headers is 'Its metadata.';
comment on column fencepost.jobs.timeout is 'Its own limit for one attempt; null takes the type''s.';
comment on column fencepost.jobs.token is 'Fencing token of its last claim; 0 before the first.';
comment on column fencepost.jobs.progress is 'What its handler last said of its progress.';
comment on column fencepost.jobs.run_id is 'The workflow run it belongs to.';
comment on column fencepost.jobs.task_id is 'The task of that run.';
