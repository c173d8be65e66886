-- The 64-bit id of the top transaction, as a plain bigint. Rows that are read "in commit order" carry it:
-- ready jobs, events and depth deltas. Subtransactions share the number of their top transaction.
create function fencepost_private.xid() returns bigint
language sql volatile
return pg_current_xact_id()::text::bigint;

comment on function fencepost_private.xid() is 'The 64-bit id of the current top transaction; assigns one if there was none.';
