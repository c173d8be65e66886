-- What a consumer has not read, of all kinds: since when (the oldest by transaction), and how many, counted to 100,000.
create function fencepost_private.unread_since(p_position fencepost_private.log_position)
returns timestamptz
language plpgsql
stable
set search_path = fencepost_private, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
  v_late  bigint[] := late_of(p_position);
  v_after bigint := coalesce((p_position).last_id, 0);
  v_first timestamptz;
begin
  select e.at into v_first from event e where e.xid >= (p_position).px and (e.id > v_after or e.xid >= (p_position).tx) order by e.xid, e.id limit 1;
  return least(v_first, (
    select min(l.at) from unnest(v_late) as i(x)
    cross join lateral (select e.at from event e where e.xid = i.x and e.id > v_after order by e.id limit 1) as l));
end
$$;
comment on function fencepost_private.unread_since(fencepost_private.log_position) is 'When the oldest event after a place happened; null when there is none.';

create function fencepost_private.unread_count(p_position fencepost_private.log_position, p_cap int default 100000)
returns bigint
language plpgsql
stable
set search_path = fencepost_private, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
  v_late  bigint[] := late_of(p_position);
  v_after bigint := coalesce((p_position).last_id, 0);
begin
  return (
    select count(*)
    from (
      (select from event e where e.xid >= (p_position).px and (e.id > v_after or e.xid >= (p_position).tx) limit p_cap)
      union all
      (select from unnest(v_late) as i(x) cross join lateral (select from event e where e.xid = i.x and e.id > v_after limit p_cap) as l limit p_cap)
      limit p_cap) as c);
end
$$;
comment on function fencepost_private.unread_count(fencepost_private.log_position, int) is 'How many events come after a place, counted to a cap.';

-- Transactions that were in flight at the tick of a place: their events come later.
create function fencepost_private.late_of(p_position fencepost_private.log_position)
returns bigint[]
language sql
stable
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
  select coalesce((select t.xip from event_tick t where t.x = (p_position).px and t.flight = (p_position).pflight limit 1), '{}')
$$;
comment on function fencepost_private.late_of(fencepost_private.log_position) is 'Transactions that were in flight at the tick of a place.';
