-- Runs and their tasks. No foreign keys lead to workflows: versions cannot be deleted, and every start would lock the
-- same row of its version.

create sequence fencepost_private.run_id_seq;
comment on sequence fencepost_private.run_id_seq is 'Ids of runs, in order of start.';

create table fencepost_private.run (
  run_id          bigint primary key,
  root_run_id     bigint not null,
  depth           int not null default 0,
  workflow_id     int not null,
  version_id      int not null,
  tenant          text not null default '',
  status          fencepost_private.run_status not null default 'running',
  input           jsonb not null,
  tags            text[] not null default '{}',
  priority        int constraint run_priority_in_range check (priority between 0 and 9),
  idempotency_key text,
  parent_task_id  bigint,
  restarted_from  bigint,
  paused_at       timestamptz,
  cancelled_at    timestamptz,
  compensating_at timestamptz,
  migrated_at     timestamptz,
  reason          text,
  created_at      timestamptz not null,
  finished_at     timestamptz,
  pending         int not null default 0,
  queued          int not null default 0,
  waiting         int not null default 0,
  ended_well      int not null default 0,
  failed          int not null default 0,
  cancelled       int not null default 0,
  undoing         int not null default 0,
  undo_failed     int not null default 0
) with (fillfactor = 70);
-- run_id + 0: so that nobody looks up a run through these, by reading all of them, while the table seems to be small
create index run_workflow_idx on fencepost_private.run (workflow_id, (run_id + 0) desc);
create index run_status_idx on fencepost_private.run (status, (run_id + 0) desc);
create index run_root_idx on fencepost_private.run (root_run_id) where root_run_id <> run_id;
create unique index run_idempotency_idx on fencepost_private.run (tenant, workflow_id, idempotency_key) where idempotency_key is not null;
alter table fencepost_private.run set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

comment on table fencepost_private.run is 'One execution of a workflow version. The numbers of tasks by state are kept so that no step of a run counts its tasks.';
comment on column fencepost_private.run.run_id is 'The run.';
comment on column fencepost_private.run.root_run_id is 'The outermost run of a family of child runs: its row is the lock of them all.';
comment on column fencepost_private.run.depth is 'How many runs it is inside of; 0 for an outermost one.';
comment on column fencepost_private.run.workflow_id is 'The workflow.';
comment on column fencepost_private.run.version_id is 'The version it is pinned to.';
comment on column fencepost_private.run.tenant is 'Whose it is; empty without tenants.';
comment on column fencepost_private.run.status is 'Derived from the numbers below, by settle_runs alone.';
comment on column fencepost_private.run.input is 'What it was started with.';
comment on column fencepost_private.run.tags is 'Words for finding it.';
comment on column fencepost_private.run.priority is 'Priority of its jobs; null is 5.';
comment on column fencepost_private.run.idempotency_key is 'The key under which it was started once.';
comment on column fencepost_private.run.parent_task_id is 'The task of another run that it carries out.';
comment on column fencepost_private.run.restarted_from is 'The run whose outputs it took over.';
comment on column fencepost_private.run.paused_at is 'Since when an operator holds it.';
comment on column fencepost_private.run.cancelled_at is 'When it was cancelled.';
comment on column fencepost_private.run.compensating_at is 'Since when it undoes what it had done.';
comment on column fencepost_private.run.migrated_at is 'When it was last moved to another version.';
comment on column fencepost_private.run.reason is 'Why it was paused or cancelled.';
comment on column fencepost_private.run.created_at is 'When it was started.';
comment on column fencepost_private.run.finished_at is 'When it reached its end; null while anything of it can still move.';
comment on column fencepost_private.run.pending is 'Tasks that wait for others.';
comment on column fencepost_private.run.queued is 'Tasks that have a job.';
comment on column fencepost_private.run.waiting is 'Tasks that wait for a decision, a time, a signal, items or a child run.';
comment on column fencepost_private.run.ended_well is 'Tasks completed, skipped, or failed with on_failure continue.';
comment on column fencepost_private.run.failed is 'Tasks that failed.';
comment on column fencepost_private.run.cancelled is 'Tasks that were cancelled.';
comment on column fencepost_private.run.undoing is 'Compensations that have not ended well.';
comment on column fencepost_private.run.undo_failed is 'Compensations that failed.';

create table fencepost_private.task (
  task_id         bigint generated always as identity primary key,
  run_id          bigint not null,
  task_no         int not null,
  kind            fencepost_private.task_kind not null,
  status          fencepost_private.task_status not null,
  unmet           int not null default 0,
  skipped_parents int not null default 0,
  parent_task_id  bigint,
  item            int,
  job_id          bigint,
  child_run_id    bigint,
  gate_id         bigint,
  released        boolean not null default false,
  input           jsonb,
  output          jsonb,
  error           text,
  due_at          timestamptz,
  ready_at        timestamptz,
  finished_at     timestamptz,
  items           int,
  items_started   int,
  items_open      int,
  items_failed    int
) with (fillfactor = 70);
create unique index task_run_idx on fencepost_private.task (run_id, task_no, item) nulls not distinct;
create unique index task_parent_idx on fencepost_private.task (parent_task_id, item) where parent_task_id is not null;
create index task_due_idx on fencepost_private.task (due_at) where due_at is not null;
alter table fencepost_private.task set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

comment on table fencepost_private.task is 'The tasks of runs: one row each from the start of the run, more for the items of maps and for compensations.';
comment on column fencepost_private.task.task_id is 'The task, over all runs.';
comment on column fencepost_private.task.run_id is 'Its run.';
comment on column fencepost_private.task.task_no is 'Which task of the version it is.';
comment on column fencepost_private.task.kind is 'What it is.';
comment on column fencepost_private.task.status is 'Where it stands.';
comment on column fencepost_private.task.unmet is 'Parents (and gates) that have not ended well.';
comment on column fencepost_private.task.skipped_parents is 'Parents that were skipped.';
comment on column fencepost_private.task.parent_task_id is 'The map of an item, or the task that a compensation undoes.';
comment on column fencepost_private.task.item is 'Index of an item, from 0; 0 for a compensation; null for a task of the definition.';
comment on column fencepost_private.task.job_id is 'Its job.';
comment on column fencepost_private.task.child_run_id is 'The run that carries it out.';
comment on column fencepost_private.task.gate_id is 'The approval that was put before it, while that is open.';
comment on column fencepost_private.task.released is 'True once the tasks that wait for it were told that it has ended well.';
comment on column fencepost_private.task.input is 'The payload of its job: of items, and of tasks that may have to be undone.';
comment on column fencepost_private.task.output is 'What it returned.';
comment on column fencepost_private.task.error is 'Why it failed or was skipped.';
comment on column fencepost_private.task.due_at is 'When a timer fires or a wait expires; null when neither can.';
comment on column fencepost_private.task.ready_at is 'When its parents were done.';
comment on column fencepost_private.task.finished_at is 'When it ended.';
comment on column fencepost_private.task.items is 'Items of a map.';
comment on column fencepost_private.task.items_started is 'Items of a map that have a job, or had one.';
comment on column fencepost_private.task.items_open is 'Items of a map that have not ended.';
comment on column fencepost_private.task.items_failed is 'Items of a map that failed.';

create table fencepost_private.approval (
  approval_id  bigint generated always as identity primary key,
  run_id       bigint not null,
  task_id      bigint not null,
  status       fencepost_private.approval_status not null default 'pending',
  is_gate      boolean not null default false,
  reason       text,
  requested_at timestamptz not null,
  requested_by text not null,
  expires_at   timestamptz,
  decided_at   timestamptz,
  decided_by   text,
  comment      text,
  data         jsonb
);
create index approval_task_idx on fencepost_private.approval (task_id);
create index approval_run_idx on fencepost_private.approval (run_id, approval_id);
create index approval_pending_idx on fencepost_private.approval (approval_id) where status = 'pending';
create index approval_expiry_idx on fencepost_private.approval (expires_at) where status = 'pending' and is_gate;
comment on table fencepost_private.approval is 'Decisions that people are asked for: approval tasks, and gates that were put before other tasks.';
comment on column fencepost_private.approval.approval_id is 'The approval.';
comment on column fencepost_private.approval.run_id is 'Its run.';
comment on column fencepost_private.approval.task_id is 'The task that waits for it.';
comment on column fencepost_private.approval.status is 'pending, then one of approved, rejected, expired, withdrawn: decided once.';
comment on column fencepost_private.approval.is_gate is 'True when it was put before a task by request_approval.';
comment on column fencepost_private.approval.reason is 'Why it is asked for.';
comment on column fencepost_private.approval.requested_at is 'Since when it is asked for.';
comment on column fencepost_private.approval.requested_by is 'By whom.';
comment on column fencepost_private.approval.expires_at is 'When it expires undecided.';
comment on column fencepost_private.approval.decided_at is 'When it was decided.';
comment on column fencepost_private.approval.decided_by is 'By whom.';
comment on column fencepost_private.approval.comment is 'What they said.';
comment on column fencepost_private.approval.data is 'What else they gave; part of the task''s output.';

create table fencepost_private.signal (
  signal_id   bigint generated always as identity primary key,
  run_id      bigint not null,
  name        text not null,
  payload     jsonb,
  received_at timestamptz not null,
  sent_by     text not null,
  task_id     bigint
);
create index signal_run_idx on fencepost_private.signal (run_id, name);
comment on table fencepost_private.signal is 'Signals that runs received. They are stored first, so one that comes before its task waits is not lost.';
comment on column fencepost_private.signal.signal_id is 'The signal.';
comment on column fencepost_private.signal.run_id is 'The run that received it.';
comment on column fencepost_private.signal.name is 'Its name.';
comment on column fencepost_private.signal.payload is 'What it carries.';
comment on column fencepost_private.signal.received_at is 'When it came.';
comment on column fencepost_private.signal.sent_by is 'From whom.';
comment on column fencepost_private.signal.task_id is 'The task that took it; null while none has.';
