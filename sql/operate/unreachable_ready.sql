-- Ready jobs that no claim would reach: below the newest watermark of their lane, and neither of a transaction that it
-- lists as late nor held. There must be none, ever, but for a logical restore.
create function fencepost_private.unreachable_ready(p_lane_id int default null)
returns table (id bigint, lane_id int)
language sql
stable
set search_path = fencepost_private, pg_temp
set jit = off
as $$
  select r.id, r.lane_id
  from lane l
  cross join lateral (select i.* from lane_hint i where i.lane_id = l.lane_id order by i.seq desc limit 1) as h
  join ready r on r.lane_id = l.lane_id and (r.xid, r.id) < (h.wx, h.wi)
  where h.boot = pg_postmaster_start_time()
    and (p_lane_id is null or l.lane_id = p_lane_id)
    and not r.id = any (h.held)
    and not exists (select from unnest(h.late_x, h.late_i) as e(x, first_id) where r.xid = e.x and r.id >= e.first_id)
$$;
comment on function fencepost_private.unreachable_ready(int) is 'Ready jobs below the watermark of their lane that it does not list: there must be none.';
