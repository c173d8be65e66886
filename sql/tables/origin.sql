-- Whether this server wrote the rows of this database. They carry its transaction numbers; a logical copy (pg_dump and
-- pg_restore, logical replication) takes them to where numbers are others. So one row holds the number of the
-- transaction that wrote it, which the server itself knows of every row (xmin). Physical copies, promotion, pg_upgrade,
-- freezing, VACUUM FULL and CREATE DATABASE … TEMPLATE keep both. In a logical copy the row was written by another transaction.
create table fencepost_private.origin (
  written_by bigint primary key
);
comment on table fencepost_private.origin is 'One row that says which transaction wrote it: when that is not so, the rows of this database came from another one.';
comment on column fencepost_private.origin.written_by is 'xmin of the row.';

-- In one statement: psql may give each its own savepoint (ON_ERROR_ROLLBACK), and with it a number of its own.
do $$
begin
  insert into fencepost_private.origin (written_by) values (0);
  update fencepost_private.origin o set written_by = o.xmin::text::bigint;
end
$$;
