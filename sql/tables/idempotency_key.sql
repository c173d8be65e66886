-- One row a key that was used. It lives as long as the job it names.
create table fencepost_private.idempotency_key (
  tenant  text not null,
  type_id int not null,
  key     text not null constraint idempotency_key_length check (length(key) between 1 and 500),
  job_id  bigint not null,
  constraint idempotency_key_pkey primary key (tenant, type_id, key)
);
create index idempotency_key_job_idx on fencepost_private.idempotency_key (job_id);
comment on table fencepost_private.idempotency_key is 'Which job an idempotency key stands for, by tenant and type. Kept as long as the job.';
comment on column fencepost_private.idempotency_key.tenant is 'The job''s tenant.';
comment on column fencepost_private.idempotency_key.type_id is 'The job''s type.';
comment on column fencepost_private.idempotency_key.key is 'The key, as the producer gave it.';
comment on column fencepost_private.idempotency_key.job_id is 'The job that was enqueued under it.';
