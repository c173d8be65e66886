-- What a handler has written down on its way: checkpoints that are recorded once, and its latest progress.
create table fencepost_private.step (
  job_id bigint not null,
  name   text not null constraint step_name_length check (length(name) between 1 and 200),
  value  jsonb,
  token  int not null,
  at     timestamptz not null,
  constraint step_pkey primary key (job_id, name)
);
comment on table fencepost_private.step is 'Checkpoints of handlers: recorded once, given back to every later attempt.';
comment on column fencepost_private.step.job_id is 'The job.';
comment on column fencepost_private.step.name is 'The step, unique in the job.';
comment on column fencepost_private.step.value is 'What the step returned.';
comment on column fencepost_private.step.token is 'The attempt that recorded it.';
comment on column fencepost_private.step.at is 'When.';

create table fencepost_private.progress (
  job_id bigint primary key,
  token  int not null,
  value  jsonb not null,
  at     timestamptz not null
) with (fillfactor = 50);
comment on table fencepost_private.progress is 'Latest progress that a handler reported, one row a job.';
comment on column fencepost_private.progress.job_id is 'The job.';
comment on column fencepost_private.progress.token is 'The attempt that reported it.';
comment on column fencepost_private.progress.value is 'Whatever the handler said: a number, a text, an object.';
comment on column fencepost_private.progress.at is 'When.';
