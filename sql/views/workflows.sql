-- What people read of workflows, runs, tasks and approvals.

create view fencepost.workflows as
select w.name, w.latest_version, v.tasks, w.keep_finished, w.created_at, v.created_at as updated_at, v.created_by as updated_by
from fencepost_private.workflow w
join fencepost_private.workflow_version v on v.workflow_id = w.workflow_id and v.version = w.latest_version;
comment on view fencepost.workflows is 'Workflows by name, with their latest version.';
comment on column fencepost.workflows.name is 'Name of the workflow.';
comment on column fencepost.workflows.latest_version is 'The version that new runs take.';
comment on column fencepost.workflows.tasks is 'Number of tasks of the latest version.';
comment on column fencepost.workflows.keep_finished is 'How long its finished runs are kept.';
comment on column fencepost.workflows.created_at is 'When its first version was published.';
comment on column fencepost.workflows.updated_at is 'When the latest version was published.';
comment on column fencepost.workflows.updated_by is 'By whom.';

create view fencepost.workflow_versions as
select w.name as workflow, v.version, v.definition, v.checksum, v.tasks, v.created_at, v.created_by
from fencepost_private.workflow_version v
join fencepost_private.workflow w on w.workflow_id = v.workflow_id;
comment on view fencepost.workflow_versions is 'Published definitions. They never change.';
comment on column fencepost.workflow_versions.workflow is 'Name of the workflow.';
comment on column fencepost.workflow_versions.version is '1, 2, 3 … within the workflow.';
comment on column fencepost.workflow_versions.definition is 'The definition, as it was published.';
comment on column fencepost.workflow_versions.checksum is 'Of the definition; publishing an equal one finds it.';
comment on column fencepost.workflow_versions.tasks is 'Number of its tasks.';
comment on column fencepost.workflow_versions.created_at is 'When it was published.';
comment on column fencepost.workflow_versions.created_by is 'By whom.';

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
comment on column fencepost.runs.id is 'The run.';
comment on column fencepost.runs.workflow is 'Its workflow.';
comment on column fencepost.runs.version is 'The version it is pinned to.';
comment on column fencepost.runs.status is 'running, waiting, paused, completed, failed, cancelled, compensating or compensated: derived from its tasks.';
comment on column fencepost.runs.input is 'What it was started with.';
comment on column fencepost.runs.output is 'Outputs of the tasks that no other waits for, by name, once it has completed.';
comment on column fencepost.runs.created_at is 'When it was started.';
comment on column fencepost.runs.finished_at is 'When it reached its end; null while anything of it can still move.';
comment on column fencepost.runs.pending_tasks is 'Tasks that wait for others.';
comment on column fencepost.runs.queued_tasks is 'Tasks that have a job, items of maps among them.';
comment on column fencepost.runs.waiting_tasks is 'Tasks that wait for a decision, a time, a signal, items or a child run.';
comment on column fencepost.runs.ended_tasks is 'Tasks that ended well.';
comment on column fencepost.runs.failed_tasks is 'Tasks that failed.';
comment on column fencepost.runs.total_tasks is 'Tasks of its version.';
comment on column fencepost.runs.tags is 'Words for finding it.';
comment on column fencepost.runs.priority is 'Priority of its jobs, unless a task says otherwise.';
comment on column fencepost.runs.tenant is 'Whose it is.';
comment on column fencepost.runs.idempotency_key is 'The key under which it was started once.';
comment on column fencepost.runs.reason is 'Why it was paused or cancelled.';
comment on column fencepost.runs.paused_at is 'Since when somebody holds it.';
comment on column fencepost.runs.cancelled_at is 'When it was cancelled.';
comment on column fencepost.runs.parent_run_id is 'The run that started it as a task.';
comment on column fencepost.runs.parent_task_id is 'The task that it carries out.';
comment on column fencepost.runs.root_run_id is 'The outermost run of its family.';
comment on column fencepost.runs.restarted_from is 'The run whose outputs it took over.';

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
comment on column fencepost.tasks.id is 'The task, over all runs.';
comment on column fencepost.tasks.run_id is 'Its run.';
comment on column fencepost.tasks.name is 'Its name in the definition.';
comment on column fencepost.tasks.kind is 'job, approval, timer, signal, map, workflow, item (of a map) or compensation.';
comment on column fencepost.tasks.status is 'pending, queued, running, waiting, completed, failed, skipped or cancelled.';
comment on column fencepost.tasks.attempts is 'Attempts of its job that counted.';
comment on column fencepost.tasks.output is 'What it returned.';
comment on column fencepost.tasks.error is 'Why it failed or was skipped.';
comment on column fencepost.tasks.type is 'Type of its job, or the workflow that it runs.';
comment on column fencepost.tasks.job_id is 'Its job.';
comment on column fencepost.tasks.child_run_id is 'The run that carries it out.';
comment on column fencepost.tasks.item is 'Index of an item, from 0.';
comment on column fencepost.tasks.parent_task_id is 'The map of an item, or the task that a compensation undoes.';
comment on column fencepost.tasks.approval_id is 'The open gate before it.';
comment on column fencepost.tasks.due_at is 'When a timer fires or a wait expires.';
comment on column fencepost.tasks.ready_at is 'When its parents were done.';
comment on column fencepost.tasks.started_at is 'When the running attempt was claimed.';
comment on column fencepost.tasks.finished_at is 'When it ended.';
comment on column fencepost.tasks.unmet_parents is 'Parents, and gates, that it still waits for.';
comment on column fencepost.tasks.after is 'The tasks that it waits for, by name.';
comment on column fencepost.tasks.items is 'Items of a map.';
comment on column fencepost.tasks.items_open is 'Items that have not ended.';
comment on column fencepost.tasks.items_failed is 'Items that failed.';

create view fencepost.approvals as
select a.approval_id as id, a.run_id, d.name as task, a.status::text, w.name as workflow, a.task_id, a.is_gate, a.reason, a.requested_at, a.requested_by, a.expires_at,
       a.decided_at, a.decided_by, a.comment, fencepost_private.shown(a.data) as data, nullif(r.tenant, '') as tenant
from fencepost_private.approval a
join fencepost_private.run r on r.run_id = a.run_id
join fencepost_private.workflow w on w.workflow_id = r.workflow_id
join fencepost_private.task t on t.task_id = a.task_id
join fencepost_private.workflow_task d on d.version_id = r.version_id and d.task_no = t.task_no;
comment on view fencepost.approvals is 'Decisions that people are asked for, and those that were made.';
comment on column fencepost.approvals.id is 'The approval.';
comment on column fencepost.approvals.run_id is 'Its run.';
comment on column fencepost.approvals.task is 'The task that waits for it.';
comment on column fencepost.approvals.status is 'pending, approved, rejected, expired or withdrawn.';
comment on column fencepost.approvals.workflow is 'The workflow of its run.';
comment on column fencepost.approvals.task_id is 'The task, over all runs.';
comment on column fencepost.approvals.is_gate is 'True when it was put before a task by request_approval.';
comment on column fencepost.approvals.reason is 'Why it is asked for.';
comment on column fencepost.approvals.requested_at is 'Since when.';
comment on column fencepost.approvals.requested_by is 'By whom.';
comment on column fencepost.approvals.expires_at is 'When it expires undecided.';
comment on column fencepost.approvals.decided_at is 'When it was decided.';
comment on column fencepost.approvals.decided_by is 'By whom.';
comment on column fencepost.approvals.comment is 'What they said.';
comment on column fencepost.approvals.data is 'What else they gave.';
comment on column fencepost.approvals.tenant is 'Whose run it is.';

create view fencepost.signals as
select s.signal_id as id, s.run_id, s.name, fencepost_private.shown(s.payload) as payload, s.received_at, s.sent_by, s.task_id
from fencepost_private.signal s;
comment on view fencepost.signals is 'Signals that runs received, and which task took each.';
comment on column fencepost.signals.id is 'The signal.';
comment on column fencepost.signals.run_id is 'The run that received it.';
comment on column fencepost.signals.name is 'Its name.';
comment on column fencepost.signals.payload is 'What it carries.';
comment on column fencepost.signals.received_at is 'When it came.';
comment on column fencepost.signals.sent_by is 'From whom.';
comment on column fencepost.signals.task_id is 'The task that took it; null while none has.';
