-- Filters of runs, tasks and approvals, as list_runs, list_tasks and list_approvals take them.
create type fencepost_private.run_filter as (
  workflow        text,
  version         int,
  status          text,
  tag             text,
  tenant          text,
  idempotency_key text,
  created_after   timestamptz,
  created_before  timestamptz
);
comment on type fencepost_private.run_filter is 'A filter of runs; nulls do not filter.';

create type fencepost_private.task_filter as (
  status         text,
  parent_task_id bigint
);
comment on type fencepost_private.task_filter is 'A filter of tasks; nulls do not filter.';

create type fencepost_private.approval_filter as (
  status   text,
  run_id   bigint,
  workflow text,
  tenant   text
);
comment on type fencepost_private.approval_filter is 'A filter of approvals; nulls do not filter.';
