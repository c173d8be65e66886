-- The words of the workflow engine.

create type fencepost_private.task_kind as enum ('job', 'approval', 'timer', 'signal', 'map', 'workflow', 'item', 'compensation');
comment on type fencepost_private.task_kind is 'What a task is: the six kinds that a definition names, the items of a map, and the undoing of a completed task.';

create type fencepost_private.task_status as enum ('pending', 'queued', 'waiting', 'completed', 'failed', 'skipped', 'cancelled');
comment on type fencepost_private.task_status is 'Where a task stands. A queued one has a job; whether that runs is told by its lease.';

create type fencepost_private.run_status as enum ('running', 'waiting', 'paused', 'completed', 'failed', 'cancelled', 'compensating', 'compensated');
comment on type fencepost_private.run_status is 'Where a run stands, derived from its tasks by settle_runs alone.';

create type fencepost_private.approval_status as enum ('pending', 'approved', 'rejected', 'expired', 'withdrawn');
comment on type fencepost_private.approval_status is 'A decision: asked for, made, missed, or no longer needed.';
