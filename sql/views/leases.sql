-- Running attempts. leased_until is the earliest time at which the engine may take the attempt back: its worker has
-- been silent for its ttl (in two looks), or has spoken for three ttls without naming the job, or the attempt times out. Every
-- heartbeat moves it on. A lease that is late but not yet taken is still good.
create view fencepost.leases as
select l.id as job_id, l.worker_id, w.name as worker, l.attempts as attempt, l.token, l.started_at,
       least(greatest(w.heartbeat_at + w.ttl, w.suspect_at + w.ttl / 2),
             greatest(l.started_at, l.seen_at, w.returned_at) + 3 * coalesce(w.ttl, interval '30 seconds'),
             l.deadline,
             w.ended_at) as leased_until,
       l.deadline, t.type, n.priority::int as priority, l.tenant, l.ready_at, l.cancel_requested_at, l.cancel_reason
from fencepost_private.lease l
join fencepost_private.lane n on n.lane_id = l.lane_id
join fencepost_private.job_type t on t.type_id = n.type_id
left join fencepost_private.worker w on w.worker_id = l.worker_id;

comment on view fencepost.leases is 'Running attempts: who holds which job, under which token, until when.';
comment on column fencepost.leases.job_id is 'The job.';
comment on column fencepost.leases.worker_id is 'The worker that holds it.';
comment on column fencepost.leases.worker is 'Name of that worker.';
comment on column fencepost.leases.attempt is 'Number of the attempt.';
comment on column fencepost.leases.token is 'Fencing token of the attempt.';
comment on column fencepost.leases.started_at is 'When it was claimed.';
comment on column fencepost.leases.leased_until is 'Before this the attempt cannot be taken back; every heartbeat moves it on.';
comment on column fencepost.leases.deadline is 'When the attempt times out; null without a timeout.';
comment on column fencepost.leases.type is 'Type of the job.';
comment on column fencepost.leases.priority is 'Priority of the job.';
comment on column fencepost.leases.tenant is 'Whose job it is.';
comment on column fencepost.leases.ready_at is 'Since when the job could have been claimed.';
comment on column fencepost.leases.cancel_requested_at is 'When its cancellation was asked for.';
comment on column fencepost.leases.cancel_reason is 'Why.';
