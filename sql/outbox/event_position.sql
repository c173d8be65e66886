-- A place in the event log, to begin list_events() from: now (the default), beginning, or a time.
-- Locks: none. Errors: JE003; JE004 after a logical restore, until after_restore() was called.
create function fencepost.event_position(at text default 'now')
returns text
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
begin
  return position_text(kept_position(found_position(event_position.at)));
end
$$;
comment on function fencepost.event_position(text) is 'A place in the event log: now, beginning, or a time. Raises JE003, JE004.';
