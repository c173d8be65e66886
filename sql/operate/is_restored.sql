-- Whether the rows of this database came from another one by a logical restore, and after_restore() was not called since.
-- A restore of the data alone, into a schema that was there, has brought a second row.
create function fencepost_private.is_restored()
returns boolean
language sql
stable
set search_path = fencepost_private, pg_temp
as $$
  select not coalesce(bool_and(o.xmin::text::bigint = o.written_by), false) from origin o
$$;
comment on function fencepost_private.is_restored() is 'Whether this database carries transaction numbers of another server, and after_restore() must be called.';

-- Whoever reads the log or moves its readers asks this: positions and ticks are numbers, and those of another server lead
-- past events that this one writes. Errors: JE004.
create function fencepost_private.check_not_restored(p_what text)
returns void
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
begin
  if is_restored() then
    perform raise_error('JE004', 'this database was restored from a dump', format('%s needs transaction numbers of this server; rows carry those of another', p_what),
      'Stop workers, relays and consumers, call fencepost.after_restore() once, then go on. In a copy that must not deliver, pause webhooks and drop consumers first.');
  end if;
end
$$;
comment on function fencepost_private.check_not_restored(text) is 'Raises JE004 after a logical restore, until after_restore() was called.';
