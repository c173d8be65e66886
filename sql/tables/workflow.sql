-- Workflow definitions. A version is written once and never again: runs are pinned to it for life.

create table fencepost_private.workflow (
  workflow_id    int generated always as identity primary key,
  name           text not null constraint workflow_name_unique unique
                 constraint workflow_name_well_formed check (name ~ '^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,199}$'),
  latest_version int not null default 0,
  keep_finished  interval not null default '7 days' constraint workflow_keep_positive check (keep_finished between '0' and '100 years'),
  created_at     timestamptz not null
);
comment on table fencepost_private.workflow is 'A workflow by name.';
comment on column fencepost_private.workflow.workflow_id is 'Internal number.';
comment on column fencepost_private.workflow.name is 'The name that starts its runs.';
comment on column fencepost_private.workflow.latest_version is 'The version that new runs take.';
comment on column fencepost_private.workflow.keep_finished is 'How long its finished runs are kept.';
comment on column fencepost_private.workflow.created_at is 'When its first version was published.';

create table fencepost_private.workflow_version (
  version_id  int generated always as identity primary key,
  workflow_id int not null references fencepost_private.workflow,
  version     int not null,
  definition  jsonb not null,
  checksum    text not null,
  tasks       int not null,
  compensates boolean not null,
  created_at  timestamptz not null,
  created_by  text not null,
  constraint workflow_version_unique unique (workflow_id, version),
  constraint workflow_version_checksum_unique unique (workflow_id, checksum)
);
comment on table fencepost_private.workflow_version is 'A published definition: immutable.';
comment on column fencepost_private.workflow_version.version_id is 'Internal number, over all workflows.';
comment on column fencepost_private.workflow_version.workflow_id is 'The workflow.';
comment on column fencepost_private.workflow_version.version is '1, 2, 3 … within the workflow.';
comment on column fencepost_private.workflow_version.definition is 'As it was published.';
comment on column fencepost_private.workflow_version.checksum is 'Of the canonical definition: publishing an equal one again finds it.';
comment on column fencepost_private.workflow_version.tasks is 'Number of its tasks.';
comment on column fencepost_private.workflow_version.compensates is 'True when a failed run undoes what it has done.';
comment on column fencepost_private.workflow_version.created_at is 'When it was published.';
comment on column fencepost_private.workflow_version.created_by is 'By whom.';

create table fencepost_private.workflow_task (
  version_id    int not null references fencepost_private.workflow_version,
  task_no       int not null,
  name          text not null,
  kind          fencepost_private.task_kind not null,
  parents       int not null,
  children      int not null,
  type          text,
  when_path     jsonpath,
  over_path     jsonpath,
  input         jsonb,
  refers_to     text[],
  continues     boolean not null default false,
  compensate    text,
  priority      int,
  max_attempts  int,
  timeout       interval,
  expires_after interval,
  on_expiry     text,
  on_reject     text,
  reason        text,
  delay         interval,
  until_path    jsonpath,
  signal        text,
  max_parallel  int,
  child         text,
  child_version int,
  constraint workflow_task_pkey primary key (version_id, task_no),
  constraint workflow_task_name_unique unique (name, version_id)
);
comment on table fencepost_private.workflow_task is 'The tasks of a version, taken apart from its definition once, at publication.';
comment on column fencepost_private.workflow_task.version_id is 'The version.';
comment on column fencepost_private.workflow_task.task_no is 'Its place in a topological order: parents come before children.';
comment on column fencepost_private.workflow_task.name is 'Its name in the definition.';
comment on column fencepost_private.workflow_task.kind is 'What it is.';
comment on column fencepost_private.workflow_task.parents is 'How many tasks it waits for.';
comment on column fencepost_private.workflow_task.children is 'How many tasks wait for it; 0 makes its output part of the run''s.';
comment on column fencepost_private.workflow_task.type is 'Type of its jobs.';
comment on column fencepost_private.workflow_task.when_path is 'Predicate: false skips the task.';
comment on column fencepost_private.workflow_task.over_path is 'The array that a map runs over.';
comment on column fencepost_private.workflow_task.input is 'Template of its payload; null gives the run''s input and the parents'' outputs.';
comment on column fencepost_private.workflow_task.refers_to is 'Tasks whose outputs its expressions name; null means any.';
comment on column fencepost_private.workflow_task.continues is 'True when the run goes on although it failed.';
comment on column fencepost_private.workflow_task.compensate is 'Type of the job that undoes it.';
comment on column fencepost_private.workflow_task.priority is 'Priority of its jobs; null takes the run''s.';
comment on column fencepost_private.workflow_task.max_attempts is 'Attempts of its jobs; null takes the type''s.';
comment on column fencepost_private.workflow_task.timeout is 'Limit of one attempt; null takes the type''s.';
comment on column fencepost_private.workflow_task.expires_after is 'How long an approval or signal is waited for.';
comment on column fencepost_private.workflow_task.on_expiry is 'What an expired approval does: reject, approve or fail.';
comment on column fencepost_private.workflow_task.on_reject is 'What a rejected approval does: fail, skip or continue.';
comment on column fencepost_private.workflow_task.reason is 'Why an approval is asked for; null shows its name.';
comment on column fencepost_private.workflow_task.delay is 'How long a timer waits.';
comment on column fencepost_private.workflow_task.until_path is 'Until when a timer waits, as a path to a time.';
comment on column fencepost_private.workflow_task.signal is 'Name of the signal that it waits for.';
comment on column fencepost_private.workflow_task.max_parallel is 'How many items of a map run at once; null is no limit.';
comment on column fencepost_private.workflow_task.child is 'The workflow that it runs.';
comment on column fencepost_private.workflow_task.child_version is 'Its version; null takes the latest when the task starts.';

create table fencepost_private.workflow_edge (
  version_id int not null references fencepost_private.workflow_version,
  parent_no  int not null,
  child_no   int not null,
  constraint workflow_edge_pkey primary key (version_id, parent_no, child_no),
  constraint workflow_edge_forward check (parent_no < child_no)
);
create index workflow_edge_child_idx on fencepost_private.workflow_edge (version_id, child_no) include (parent_no);
comment on table fencepost_private.workflow_edge is 'Which task waits for which. Edges lead forward in the topological order, so there is no cycle.';
comment on column fencepost_private.workflow_edge.version_id is 'The version.';
comment on column fencepost_private.workflow_edge.parent_no is 'The task that comes first.';
comment on column fencepost_private.workflow_edge.child_no is 'The task that waits.';

create function fencepost_private.refuse_change() returns trigger
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
begin
  perform raise_error('JE004', 'a published workflow version is immutable', format('%s of %s', tg_op, tg_table_name),
    'Publish a changed definition as a new version.');
  return null;
end
$$;
comment on function fencepost_private.refuse_change() is 'Trigger: refuses UPDATE, DELETE and TRUNCATE of published definitions, also for the owner.';

create trigger immutable before update or delete or truncate on fencepost_private.workflow_version
  for each statement execute function fencepost_private.refuse_change();
create trigger immutable before update or delete or truncate on fencepost_private.workflow_task
  for each statement execute function fencepost_private.refuse_change();
create trigger immutable before update or delete or truncate on fencepost_private.workflow_edge
  for each statement execute function fencepost_private.refuse_change();
