-- Computes a fresh watermark for a lane from an older one, in ONE statement, hence from one snapshot.
--
-- The watermark (wx, wi) is the first live row of the lane in the order (xid, id). Below it, nothing is alive or can
-- still appear, with two exceptions that the hint lists:
--   late_x, late_i  transactions below it that were in flight in this snapshot (our own counts: it is not in its own
--                   snapshot's list), or that committed late and have rows left from late_i on;
--   held            rows below it that an open claim had locked: it may yet roll back.
--
-- Why it is safe without a lock: whoever can still publish a row below the watermark is, by definition, in flight in
-- the snapshot that computed it. And before its commit a hint is seen only by the transaction whose own deletes it
-- counted as dead. So a hint, once visible, is true for ever; an older one only costs a longer look.
--
-- Locked rows are passed over only when the watermark has not moved since the last hint, so that the list of held
-- rows stays empty while claims are short; it holds at most about 1,000.
create function fencepost_private.refresh_hint(p_lane_id int, p_hint fencepost_private.lane_hint, p_now timestamptz)
returns void
language sql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
  with snapshot as materialized (
    select pg_current_snapshot() as snap,
           pg_snapshot_xmax(pg_current_snapshot())::text::bigint as xmax,
           coalesce(pg_current_xact_id_if_assigned()::text::bigint, 0) as own
  ), still_held as materialized (
    select r.id from unnest(p_hint.held) as h(id) join ready r on r.id = h.id
  ), room as materialized (
    select greatest(0, 1000 - count(*)) as rows from still_held
  ), head as materialized (          -- the first rows at or after the old watermark; xmax = 0: nobody locks or deletes it
    select r.xid, r.id, r.xmax = 0 as is_free
    from ready r
    where r.lane_id = p_lane_id and (r.xid, r.id) >= (p_hint.wx, p_hint.wi)
    order by r.xid, r.id
    limit (select rows + 1 from room)
  ), has_moved as materialized (
    select not exists (select from head h where (h.xid, h.id) = (p_hint.wx, p_hint.wi)) as yes
  ), first_live as materialized (
    select h.xid, h.id
    from head h
    where h.is_free
       or (select yes from has_moved)
       or (select count(*) from head) > (select rows from room)
          and (h.xid, h.id) = (select l.xid, l.id from head l order by l.xid desc, l.id desc limit 1)
    order by h.xid, h.id
    limit 1
  ), mark as materialized (
    select case when f.xid < s.xmax then f.xid else s.xmax end as wx,
           case when f.xid < s.xmax and f.xid <> s.own then f.id else 0 end as wi,
           s.snap, s.own
    from snapshot s left join first_live f on true
  ), late as materialized (
    select u.x, min(u.first_id) as first_id
    from (
      select x::text::bigint as x, 0::bigint as first_id from mark m cross join lateral pg_snapshot_xip(m.snap) as x
      union all
      select m.own, 0 from mark m where m.own > 0
      union all
      select l.x, first.id
      from unnest(p_hint.late_x, p_hint.late_i) as l(x, first_id)
      cross join lateral (select r.id from ready r where r.lane_id = p_lane_id and r.xid = l.x and r.id >= l.first_id order by r.id limit 1) as first
    ) as u
    where u.x < (select wx from mark)
    group by u.x
  )
  insert into lane_hint (lane_id, wx, wi, late_x, late_i, held, at)
  select p_lane_id, m.wx, m.wi,
         coalesce((select array_agg(l.x order by l.x) from late l), '{}'),
         coalesce((select array_agg(l.first_id order by l.x) from late l), '{}'),
         array(select s.id from still_held s union select h.id from head h where (h.xid, h.id) < (m.wx, m.wi)),
         p_now
  from mark m
$$;
comment on function fencepost_private.refresh_hint(int, fencepost_private.lane_hint, timestamptz)
  is 'Appends a fresh watermark of a lane, computed from an older one in a single snapshot. Takes no lock.';

create function fencepost_private.no_hint(p_lane_id int) returns fencepost_private.lane_hint
language sql immutable
return row(p_lane_id, 0, 0, 0, '{}', '{}', '{}', '-infinity', null)::fencepost_private.lane_hint;
comment on function fencepost_private.no_hint(int) is 'The watermark of a lane about which nothing is known: the beginning.';
