-- Which migrations this database holds. Written by `fencepost migrate` (or by fencepost.sql) in the transaction
-- of each migration, and read by nothing else: the engine's own behaviour never depends on it.
create table fencepost_private.migration (
  number     int primary key,
  name       text not null,
  hash       text not null constraint migration_hash_unique unique,
  applied_at timestamptz not null default clock_timestamp(),
  applied_by text not null default session_user
);

comment on table fencepost_private.migration is 'The migrations that this database holds, one row each.';
comment on column fencepost_private.migration.number is 'Its place in the chain: 1, 2, 3 … without a gap.';
comment on column fencepost_private.migration.name is 'The name of its file.';
comment on column fencepost_private.migration.hash is 'The hash of its text and of the hash before it: the last one vouches for the whole chain.';
comment on column fencepost_private.migration.applied_at is 'When it was applied.';
comment on column fencepost_private.migration.applied_by is 'The role that applied it.';
