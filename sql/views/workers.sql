-- Worker processes, one row an incarnation: a restart is a new row. The status is what the clock says: one that was
-- silent for its ttl is lost, also before housekeeping has noticed.
create view fencepost.workers as
select w.worker_id as id, w.name, w.hostname,
       case when w.status in ('active', 'draining') and w.heartbeat_at < fencepost_private.now() - w.ttl then 'lost' else w.status::text end as status,
       w.types, w.heartbeat_at as last_heartbeat,
       coalesce(a.jobs, 0) as active_jobs, w.slot, w.ttl, w.started_at, w.suspect_at, w.ended_at, w.info, w.tenant
from fencepost_private.worker w
left join (select l.worker_id, count(*) as jobs from fencepost_private.lease l group by l.worker_id) as a on a.worker_id = w.worker_id;

comment on view fencepost.workers is 'Worker processes, present and past, and how many jobs each runs.';
comment on column fencepost.workers.id is 'Number of the incarnation; never reused.';
comment on column fencepost.workers.name is 'Name that the process gave itself.';
comment on column fencepost.workers.hostname is 'Where it runs.';
comment on column fencepost.workers.status is 'active, draining, lost (silent for longer than its ttl) or stopped.';
comment on column fencepost.workers.types is 'Types that it last claimed or declared.';
comment on column fencepost.workers.last_heartbeat is 'Its last sign of life.';
comment on column fencepost.workers.active_jobs is 'Jobs that it runs now.';
comment on column fencepost.workers.slot is 'Tells processes of one name on one host apart.';
comment on column fencepost.workers.ttl is 'How long it may be silent before it is lost.';
comment on column fencepost.workers.started_at is 'When it registered.';
comment on column fencepost.workers.suspect_at is 'When its silence was first noticed; null while it speaks.';
comment on column fencepost.workers.ended_at is 'When it was found lost, or stopped.';
comment on column fencepost.workers.info is 'What it tells of itself: version, pid, slots, language.';
comment on column fencepost.workers.tenant is 'The tenant it works for; empty works for all.';
