-- What the steps of a run hand to each other.

create type fencepost_private.task_end as (task_id bigint, status fencepost_private.task_status, output jsonb, error text);
comment on type fencepost_private.task_end is 'A task that is about to end, and how.';

create type fencepost_private.ended_task as (
  task_id bigint, run_id bigint, version_id int, task_no int, kind fencepost_private.task_kind, parent_task_id bigint,
  was fencepost_private.task_status, status fencepost_private.task_status, released boolean, releases boolean);
comment on type fencepost_private.ended_task is 'A task that has just ended: what it was before, what it is now, whether its children are released, and whether they are by this end.';

create type fencepost_private.run_delta as (
  run_id bigint, pending int, queued int, waiting int, ended_well int, failed int, cancelled int, undoing int, undo_failed int);
comment on type fencepost_private.run_delta is 'By how much the numbers of a run change.';

create type fencepost_private.due_task as (
  task_id bigint, run_id bigint, task_no int, kind fencepost_private.task_kind, tenant text, type text, priority int, max_attempts int, timeout interval,
  payload jsonb, keeps_input boolean, ends_as fencepost_private.task_status, reason text, expires_at timestamptz, due_at timestamptz, signal text, items jsonb, template jsonb, child text, child_version int);
comment on type fencepost_private.due_task is 'A task whose parents have ended, with what its start needs; or how and why it ends at once.';
