-- The words that are stored. They are enums so that a row in psql reads as English at four bytes a word.

create type fencepost_private.event_kind as enum (
  'job.enqueued', 'job.started', 'job.retry_scheduled', 'job.completed', 'job.dead_lettered', 'job.cancelled',
  'job.replayed', 'job.discarded', 'job.cancel_requested', 'job.reprioritized', 'job.released', 'job.suspended', 'job.resumed',
  'run.started', 'run.completed', 'run.failed', 'run.cancelled', 'run.paused', 'run.resumed', 'run.compensated',
  'task.skipped', 'signal.received', 'schedule.fired', 'consumer.expired', 'approval.requested', 'approval.decided',
  'worker.registered', 'worker.lost', 'worker.stopped', 'worker.draining',
  'operator.type_configured', 'operator.type_paused', 'operator.type_resumed', 'operator.restored', 'run.migrated', 'operator.workflow_configured',
  'operator.webhook_changed');
comment on type fencepost_private.event_kind is 'What happened, in the event log. A kind is never renamed; new ones are added at the end.';

create type fencepost_private.attempt_outcome as enum (
  'completed', 'failed', 'timed_out', 'lease_expired', 'released', 'cancelled', 'suspended');
comment on type fencepost_private.attempt_outcome is 'How one attempt of a job ended. A running attempt has none yet.';

create type fencepost_private.worker_status as enum ('active', 'draining', 'lost', 'stopped');
comment on type fencepost_private.worker_status is 'A worker''s life: active or draining, then lost (it fell silent) or stopped (it said goodbye).';
