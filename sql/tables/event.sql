-- The log: one row for every transition, written in the transaction that made it, and never changed. It is the
-- history of attempts, the audit trail and the outbox at once.
create sequence fencepost_private.event_id_seq cache 1;
comment on sequence fencepost_private.event_id_seq is 'Ids of events. Cache 1: within one job''s life ids grow.';

create table fencepost_private.event (
  id         bigint not null default nextval('fencepost_private.event_id_seq'),
  xid        bigint not null,
  at         timestamptz not null,
  tenant     text not null default '',
  kind       fencepost_private.event_kind not null,
  outcome    fencepost_private.attempt_outcome,
  lane_id    int,
  job_id     bigint,
  run_id     bigint,
  task_id    bigint,
  attempt    int,
  token      int,
  worker_id  int,
  ready_at   timestamptz,
  started_at timestamptz,
  actor      text,
  data       jsonb
) partition by range (id);
create index event_xid_idx on fencepost_private.event (xid, id);
create index event_job_idx on fencepost_private.event (job_id) where job_id is not null;

alter table fencepost_private.event replica identity full;  -- see depth_delta; make_partitions() says so of each partition
comment on table fencepost_private.event is 'The append-only log of every transition, in the transaction that made it. Range-partitioned by id.';
comment on column fencepost_private.event.id is 'Orders the events of one job; across jobs, commits may come in another order.';
comment on column fencepost_private.event.xid is 'Top transaction that wrote it; consumers read in commit order through it.';
comment on column fencepost_private.event.at is 'When it happened.';
comment on column fencepost_private.event.tenant is 'Whose it is; empty without tenants.';
comment on column fencepost_private.event.kind is 'What happened.';
comment on column fencepost_private.event.outcome is 'How the attempt ended, when the event ends one.';
comment on column fencepost_private.event.lane_id is 'The lane of the job, hence its type and priority.';
comment on column fencepost_private.event.job_id is 'The job.';
comment on column fencepost_private.event.run_id is 'The workflow run.';
comment on column fencepost_private.event.task_id is 'The task of the run.';
comment on column fencepost_private.event.attempt is 'Number of the attempt.';
comment on column fencepost_private.event.token is 'Fencing token of the attempt.';
comment on column fencepost_private.event.worker_id is 'The worker (incarnation).';
comment on column fencepost_private.event.ready_at is 'Since when the job could have been claimed: started_at less this is the wait.';
comment on column fencepost_private.event.started_at is 'When the attempt was claimed: at less this is the run time.';
comment on column fencepost_private.event.actor is 'Who did it, for what people do.';
comment on column fencepost_private.event.data is 'The result, the error, or what else belongs to the event.';
