-- Locks up to p_max ready rows of a lane for the caller, oldest first, and returns where they are. Never waits:
-- rows locked by others are passed over. Looks at late transactions, at rows that an open claim held, and from the
-- watermark on; see refresh_hint for why nothing else can be alive.
create function fencepost_private.pick_jobs(p_lane_id int, p_hint fencepost_private.lane_hint, p_max int)
returns tid[]
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
  v_found tid[] := '{}'::tid[];
begin
  if cardinality(p_hint.late_x) > 0 then
    v_found := array(
      select q.place
      from unnest(p_hint.late_x, p_hint.late_i) as e(x, first_id)
      cross join lateral (
        select r.ctid as place from ready r
        where r.lane_id = p_lane_id and r.xid = e.x and r.id >= e.first_id
        order by r.id limit p_max
        for update skip locked
      ) as q
      limit p_max);
  end if;
  if cardinality(p_hint.held) > 0 and cardinality(v_found) < p_max then
    v_found := v_found || array(
      select r.ctid from ready r
      where r.id = any (p_hint.held)
        and r.lane_id + 0 = p_lane_id      -- "+ 0": by the primary key, never along the lane's dead rows
        and not r.xid = any (p_hint.late_x)
      order by r.id limit p_max - cardinality(v_found)
      for update skip locked);
  end if;
  if cardinality(v_found) < p_max then
    v_found := v_found || array(
      select r.ctid from ready r
      where r.lane_id = p_lane_id and (r.xid, r.id) >= (p_hint.wx, p_hint.wi)
      order by r.xid, r.id limit p_max - cardinality(v_found)
      for update skip locked);
  end if;
  return v_found;
end
$$;
comment on function fencepost_private.pick_jobs(int, fencepost_private.lane_hint, int) is 'Locks up to p_max ready rows of a lane, oldest first, without waiting, and returns their places.';
