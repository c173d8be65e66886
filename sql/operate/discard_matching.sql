-- Gives up dead letters that match a filter, oldest first, at most `max` a call; or, as long as dry_run is not false,
-- only counts them. The filter is that of replay_matching.
-- Locks: the dead letters, in id order. Errors: JE003.
create function fencepost.discard_matching(filter jsonb, dry_run boolean default true, reason text default null, max int default 10000)
returns bigint
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_ids bigint[] := matching_dead_letters(discard_matching.filter, discard_matching.max);
begin
  if discard_matching.dry_run is not false then
    return cardinality(v_ids);
  end if;
  return discard_jobs(v_ids, discard_matching.reason);
end
$$;
comment on function fencepost.discard_matching(jsonb, boolean, text, int)
  is 'Gives up dead letters that match a filter, or counts them (dry_run, the default); returns how many. Raises JE003.';
