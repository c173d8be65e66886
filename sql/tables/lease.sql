-- Who runs what. A row is born by a claim and dies with the end of the attempt; whoever can name (id, token) owns
-- the attempt. Indexed by id alone: under a held snapshot every further index would be a chain of dead entries.
create table fencepost_private.lease (
  id         bigint primary key,
  token      int not null,
  worker_id  int not null,
  lane_id    int not null,
  tenant     text not null default '',
  run_id     bigint,
  task_id    bigint,
  attempts   int not null,
  ready_at   timestamptz not null,
  started_at timestamptz not null,
  deadline   timestamptz,
  seen_at    timestamptz,
  cancel_requested_at timestamptz,
  cancel_reason text
) with (fillfactor = 80);
alter table fencepost_private.lease set (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_threshold = 1000000000);
comment on table fencepost_private.lease is 'Running attempts: which worker holds which job, under which fencing token.';
comment on column fencepost_private.lease.id is 'The job.';
comment on column fencepost_private.lease.token is 'Fencing token of this attempt; it grows with every claim in the job''s life.';
comment on column fencepost_private.lease.worker_id is 'The worker (its incarnation) that holds it.';
comment on column fencepost_private.lease.lane_id is 'The lane it was claimed from.';
comment on column fencepost_private.lease.tenant is 'The job''s tenant.';
comment on column fencepost_private.lease.run_id is 'The workflow run of the job.';
comment on column fencepost_private.lease.task_id is 'The task of that run.';
comment on column fencepost_private.lease.attempts is 'Number of this attempt; replay starts again at 1.';
comment on column fencepost_private.lease.ready_at is 'Since when the job could have been claimed.';
comment on column fencepost_private.lease.started_at is 'When it was claimed.';
comment on column fencepost_private.lease.deadline is 'When this attempt times out; null without a timeout.';
comment on column fencepost_private.lease.seen_at is 'When its worker last named it in a heartbeat; written only for leases older than a ttl.';
comment on column fencepost_private.lease.cancel_requested_at is 'When cancellation was asked for.';
comment on column fencepost_private.lease.cancel_reason is 'Why.';
