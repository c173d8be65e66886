-- Brings the watermarks of idle lanes up to date. Claims refresh a lane while they find work in it, so its last burst
-- leaves up to 200 ms of dead rows above the watermark, and transactions that were in flight stay listed; while a
-- snapshot is held, every later claim of an idle lane would look at those rows and transactions again.
--
-- Due are the lanes whose type has moved jobs that fold_depth() has not counted yet: this step comes before that one.
-- Else one lane whose watermark lists something that is over; not in a transaction that has written, which would
-- list itself, so that an engine at rest soon has nothing to write here.
-- A step of maintain(). Locks: none. Returns how many lanes were refreshed.
create function fencepost_private.refresh_idle_hints(p_limit int default 200, p_now timestamptz default fencepost_private.now())
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_lane  record;
  v_count bigint := 0;
begin
  for v_lane in
    select n.lane_id, newest.hint
    from lane n
    cross join lateral (select h as hint from lane_hint h where h.lane_id = n.lane_id order by h.seq desc limit 1) as newest
    where (newest.hint).boot = pg_postmaster_start_time()
      and (newest.hint).at < p_now - interval '200 milliseconds'
      and exists (select from depth_delta d where d.type_id = n.type_id and d.xid >= (newest.hint).wx)
    limit p_limit
  loop
    perform refresh_hint(v_lane.lane_id, v_lane.hint, p_now);
    v_count := v_count + 1;
  end loop;
  if pg_current_xact_id_if_assigned() is not null then
    return v_count;
  end if;

  select n.lane_id, newest.hint into v_lane
  from lane n
  cross join lateral (select h as hint from lane_hint h where h.lane_id = n.lane_id order by h.seq desc limit 1) as newest
  where (newest.hint).boot = pg_postmaster_start_time()
    and (newest.hint).at < p_now - interval '1 second'
    and (exists (select from unnest((newest.hint).late_x) as e(x) where pg_visible_in_snapshot(e.x::text::xid8, pg_current_snapshot()))
         or cardinality((newest.hint).held) > 0)
  limit 1;
  if found then
    perform refresh_hint(v_lane.lane_id, v_lane.hint, p_now);
    v_count := v_count + 1;
  end if;
  return v_count;
end
$$;
comment on function fencepost_private.refresh_idle_hints(int, timestamptz) is 'A step of maintain(): refreshes the watermarks of lanes that claims have left. Returns how many.';
