-- Who paused a type, and why: read by explain_job and doctor, which must not search the log.
create table fencepost_private.type_pause (
  type_id   int primary key references fencepost_private.job_type,
  paused_at timestamptz not null,
  paused_by text not null,
  reason    text
);
comment on table fencepost_private.type_pause is 'Who paused each paused type, and why.';
comment on column fencepost_private.type_pause.type_id is 'The type.';
comment on column fencepost_private.type_pause.paused_at is 'When.';
comment on column fencepost_private.type_pause.paused_by is 'Who.';
comment on column fencepost_private.type_pause.reason is 'Why.';
