-- What code last declared of a type, so that a setting which an operator gives back finds its value again.
create table fencepost_private.type_declaration (
  type_id     int primary key references fencepost_private.job_type,
  settings    jsonb not null,
  declared_at timestamptz not null,
  declared_by text not null
);
comment on table fencepost_private.type_declaration is 'The settings that code last declared for each type.';
comment on column fencepost_private.type_declaration.type_id is 'The type.';
comment on column fencepost_private.type_declaration.settings is 'The settings by name; what is missing has the engine''s default.';
comment on column fencepost_private.type_declaration.declared_at is 'When the declaration last changed.';
comment on column fencepost_private.type_declaration.declared_by is 'Who declared it.';
