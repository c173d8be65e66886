-- What people read of workflows, runs, tasks and approvals.

create view fencepost.workflows as
select w.name, w.latest_version, v.tasks, w.created_at, v.created_at as updated_at, v.created_by as updated_by
from fencepost_private.workflow w
join fencepost_private.workflow_version v on v.workflow_id = w.workflow_id and v.version = w.latest_version;
comment on view fencepost.workflows is 'Workflows by name, with their latest version.';

create view fencepost.workflow_versions as
select w.name as workflow, v.version, v.definition, v.checksum, v.tasks, v.created_at, v.created_by
from fencepost_private.workflow_version v
join fencepost_private.workflow w on w.workflow_id = v.workflow_id;
comment on view fencepost.workflow_versions is 'Published definitions. They never change.';

create view fencepost.runs as
select r.run_id as id, w.name as workflow, v.version, r.status::text, fencepost_private.shown(r.input) as input, r.created_at, r.finished_at,
       r.pending as pending_tasks, r.queued as queued_tasks, r.waiting as waiting_tasks, r.ended_well as ended_tasks, r.failed as failed_tasks, v.tasks as total_tasks,
       case when r.status = 'completed' then fencepost_private.shown(fencepost_private.run_output(r.run_id)) end as output,
       r.tags, coalesce(r.priority, 5) as priority, nullif(r.tenant, '') as tenant, r.idempotency_key, r.reason, r.paused_at, r.cancelled_at,
       t.run_id as parent_run_id, r.parent_task_id, r.root_run_id, r.restarted_from
from fencepost_private.run r
join fencepost_private.workflow w on w.workflow_id = r.workflow_id
join fencepost_private.workflow_version v on v.version_id = r.version_id
left join fencepost_private.task t on t.task_id = r.parent_task_id;
comment on view fencepost.runs is 'Runs of workflows, with the version each is pinned to and how far it is.';

create view fencepost.tasks as
select t.task_id as id, t.run_id, d.name, t.kind::text,
       case when t.status = 'queued' and l.id is not null then 'running' else t.status::text end as status,
       coalesce(l.attempts, a.attempts, 0) as attempts, fencepost_private.shown(t.output) as output, t.error,
       case when t.kind = 'compensation' then d.compensate else coalesce(d.type, d.child) end as type,
       t.job_id, t.child_run_id, t.item, t.parent_task_id, t.gate_id as approval_id, t.due_at, t.ready_at, l.started_at, t.finished_at, t.unmet as unmet_parents,
       array(select p.name from fencepost_private.workflow_edge e
             join fencepost_private.workflow_task p on p.version_id = e.version_id and p.task_no = e.parent_no
             where e.version_id = d.version_id and e.child_no = d.task_no order by e.parent_no) as after,
       t.items, t.items_open, t.items_failed
from fencepost_private.task t
join fencepost_private.run r on r.run_id = t.run_id
join fencepost_private.workflow_task d on d.version_id = r.version_id and d.task_no = t.task_no
left join fencepost_private.lease l on l.id = t.job_id
left join lateral (
  select max(e.attempt) as attempts from fencepost_private.event e where e.job_id = t.job_id and e.outcome is not null
) as a on t.job_id is not null;
comment on view fencepost.tasks is 'Tasks of runs: what each is, where it stands, what it returned. Items of maps and compensations have a parent_task_id.';

create view fencepost.approvals as
select a.approval_id as id, a.run_id, d.name as task, a.status::text, w.name as workflow, a.task_id, a.is_gate, a.reason, a.requested_at, a.requested_by, a.expires_at,
       a.decided_at, a.decided_by, a.comment, fencepost_private.shown(a.data) as data, nullif(r.tenant, '') as tenant
from fencepost_private.approval a
join fencepost_private.run r on r.run_id = a.run_id
join fencepost_private.workflow w on w.workflow_id = r.workflow_id
join fencepost_private.task t on t.task_id = a.task_id
join fencepost_private.workflow_task d on d.version_id = r.version_id and d.task_no = t.task_no;
comment on view fencepost.approvals is 'Decisions that people are asked for, and those that were made.';

create view fencepost.signals as
select s.signal_id as id, s.run_id, s.name, fencepost_private.shown(s.payload) as payload, s.received_at, s.sent_by, s.task_id
from fencepost_private.signal s;
comment on view fencepost.signals is 'Signals that runs received, and which task took each.';
