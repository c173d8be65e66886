-- The body of a job: what was asked for. Insert-only. Where the job stands is told by which other table holds its
-- id (ready, delayed, parked, lease, suspended, dead_letter) or, once it has ended, by its last event.
create sequence fencepost_private.job_id_seq;
comment on sequence fencepost_private.job_id_seq is 'Ids of jobs, in order of enqueue.';

create table fencepost_private.job (
  id              bigint not null default nextval('fencepost_private.job_id_seq'),
  lane_id         int not null,
  tenant          text not null default '',
  payload         jsonb not null,
  headers         jsonb,
  idempotency_key text,
  max_attempts    int constraint job_max_attempts_positive check (max_attempts > 0),
  timeout         interval constraint job_timeout_positive check (timeout > '0' and timeout <= '100 years'),
  created_at      timestamptz not null,
  run_at          timestamptz,
  run_id          bigint,
  task_id         bigint,
  batch_id        bigint,
  concurrency_key text,
  fair_key        text,
  pool            text,
  slots           int,
  primary key (id)
) partition by range (id);

comment on table fencepost_private.job is 'The body of every job: insert-only, range-partitioned by id. Its state is the table that holds its id.';
comment on column fencepost_private.job.id is 'The job''s number, unique for ever.';
comment on column fencepost_private.job.lane_id is 'The lane it was enqueued into; the present lane is told by the place that holds it.';
comment on column fencepost_private.job.tenant is 'Whose job it is; empty without tenants.';
comment on column fencepost_private.job.payload is 'What the handler is given.';
comment on column fencepost_private.job.headers is 'Metadata for machines, such as traceparent; handlers see it, nothing here reads it.';
comment on column fencepost_private.job.idempotency_key is 'The key under which it was enqueued once.';
comment on column fencepost_private.job.max_attempts is 'Its own limit of attempts; null takes the type''s.';
comment on column fencepost_private.job.timeout is 'Its own limit for one attempt; null takes the type''s.';
comment on column fencepost_private.job.created_at is 'When it was enqueued.';
comment on column fencepost_private.job.run_at is 'The earliest time of its first attempt, when it was delayed.';
comment on column fencepost_private.job.run_id is 'The workflow run it belongs to.';
comment on column fencepost_private.job.task_id is 'The task of that run.';
comment on column fencepost_private.job.batch_id is 'The batch it belongs to.';
comment on column fencepost_private.job.concurrency_key is 'Reserved for limits by key.';
comment on column fencepost_private.job.fair_key is 'Reserved for fair sharing.';
comment on column fencepost_private.job.pool is 'Reserved for pools.';
comment on column fencepost_private.job.slots is 'Reserved for pools.';
