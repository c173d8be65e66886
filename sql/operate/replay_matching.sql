-- Returns dead letters to work that match a filter, oldest first, at most `max` a call; or, as long as dry_run is not
-- false, only counts them. Call it again until it returns 0 when there are more. Dead letters of runs that were cancelled
-- or undone, and so cannot live again, are left out.
--
-- The filter is a JSON object; {} matches all dead letters, each key narrows:
--   type, tenant, priority, attempts, failed_after, failed_before
--   error          text that the final error contains, in any case
--   error_matches  a regular expression that it matches
-- Locks: the root runs, then the dead letters, in id order. Errors: JE003.
create function fencepost.replay_matching(filter jsonb, dry_run boolean default true, max int default 10000)
returns bigint
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_ids   bigint[] := '{}'::bigint[];
  v_batch bigint[];
  -- a small max does not mean small steps over all that is left out
  v_walk  int := greatest(replay_matching.max, 1000);
begin
  perform check_matching(replay_matching.filter, replay_matching.max);
  loop
    v_batch := matching_dead_letters(replay_matching.filter, v_walk, coalesce(v_batch[cardinality(v_batch)], 0));
    v_ids := v_ids || without_late_replays(v_batch);
    v_ids := v_ids[:replay_matching.max];
    exit when cardinality(v_batch) < v_walk or cardinality(v_ids) = replay_matching.max;
  end loop;
  if replay_matching.dry_run is not false then
    return cardinality(v_ids);
  end if;
  return replay_jobs(v_ids, p_living_only => true);
end
$$;
comment on function fencepost.replay_matching(jsonb, boolean, int)
  is 'Returns dead letters that match a filter to work, or counts them (dry_run, the default); returns how many. Raises JE003.';

-- The dead letters that match, oldest first, those after an id. Errors: JE003.
create function fencepost_private.matching_dead_letters(p_filter jsonb, p_max int, p_after bigint default 0)
returns bigint[]
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
declare
  v_filter job_filter;
begin
  perform check_matching(p_filter, p_max);
  v_filter := parsed_filter(p_filter, array['type', 'tenant', 'priority', 'attempts', 'failed_after', 'failed_before', 'error', 'error_matches']);
  return array(
    select z.id
    from dead_letter z
    join lane n on n.lane_id = z.lane_id
    join job_type t on t.type_id = n.type_id
    where z.id > p_after
      and (v_filter.type is null or t.type = v_filter.type)
      and (v_filter.priority is null or n.priority = v_filter.priority)
      and (v_filter.tenant is null or z.tenant = v_filter.tenant)
      and (v_filter.attempts is null or z.attempts = v_filter.attempts)
      and (v_filter.failed_after is null or z.failed_at >= v_filter.failed_after)
      and (v_filter.failed_before is null or z.failed_at < v_filter.failed_before)
      and (v_filter.error is null or position(lower(v_filter.error) in lower(shown(to_jsonb(z.final_error)) #>> '{}')) > 0)
      and (v_filter.error_matches is null or shown(to_jsonb(z.final_error)) #>> '{}' ~ v_filter.error_matches)
    order by z.id
    limit p_max);
end
$$;
comment on function fencepost_private.matching_dead_letters(jsonb, int, bigint) is 'Ids of dead letters that match a filter, oldest first. Raises JE003.';

-- Errors: JE003 for no filter or a max out of range.
create function fencepost_private.check_matching(p_filter jsonb, p_max int)
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
begin
  if p_filter is null then
    perform raise_error('JE003', 'a filter is needed', 'received null', 'Say {} to mean all dead letters.');
  end if;
  if p_max is null or p_max not between 1 and 100000 then
    perform raise_error('JE003', 'max must be from 1 to 100000', format('received max = %s', coalesce(p_max::text, 'null')), 'Call again for more.');
  end if;
end
$$;
comment on function fencepost_private.check_matching(jsonb, int) is 'Raises JE003 for no filter or a max out of range.';
