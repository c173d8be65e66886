-- Folds depth deltas into the base of their type, and removes them: the new base is the old one plus exactly the rows
-- that are deleted, in one statement, so that the sum is the same before and after in any snapshot.
--
-- Counted are the deltas of transactions that had ended for our snapshot. Those in flight stay, and so do our own:
-- this transaction may write more. Both are named in the new base: x is where the uncounted begin, xip the exceptions
-- below it. Only the range between the old base and the new is read, since below it lie dead index entries.
--
-- At most about p_limit deltas of a type are folded at once. Returns how many were.
-- Call it under maintain()'s lock and in READ COMMITTED: one at a time, each seeing the one before.
create function fencepost_private.fold_depth(p_limit int default 20000)
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
  v_minute timestamptz := date_trunc('minute', fencepost_private.now());
  v_folded bigint;
begin
  with flight as materialized (
    select f.xmax, f.xip from in_flight() f
  ), base as materialized (
    select t.type_id, b.seq, coalesce(b.x, 0) as x, coalesce(b.xip, '{}') as xip
    from job_type t
    left join lateral (select n.seq, n.x, n.xip from depth_base n where n.type_id = t.type_id order by n.seq desc limit 1) as b on true
  ), reach as materialized (
    select b.type_id, b.seq, b.x as old_x, b.xip as old_xip, least(f.xmax, far.xid + 1) as x
    from base b
    cross join flight f
    left join lateral (select d.xid from depth_delta d where d.type_id = b.type_id and d.xid >= b.x order by d.xid offset p_limit limit 1) as far on true
  ), seen as materialized (
    select d.place
    from reach r
    cross join flight f
    cross join lateral (
      select n.ctid as place from depth_delta n
      where n.type_id = r.type_id and n.xid >= r.old_x and n.xid < r.x and not n.xid = any (f.xip)
      union all
      select late.place
      from unnest(r.old_xip) as e(x)
      cross join lateral (select n.ctid as place from depth_delta n where n.type_id = r.type_id and n.xid = e.x offset 0) as late
      where e.x < r.old_x and not e.x = any (f.xip)
    ) as d
  ), folded as (
    delete from depth_delta d where d.ctid = any (array(select s.place from seen s)) returning d.*
  ), summed as (
    select d.type_id, count(*) as deltas, sum(d.ready) as ready, sum(d.delayed) as delayed, sum(d.parked) as parked, sum(d.running) as running,
           sum(d.waiting) as waiting, sum(d.dead_letter) as dead_letter, sum(d.enqueued) as enqueued
    from folded d group by d.type_id
  ), replaced as (
    delete from depth_base o using summed s, reach r
    where r.type_id = s.type_id and o.type_id = r.type_id and o.seq = r.seq
    returning o.*
  ), put as (
    insert into depth_base (type_id, x, xip, ready, delayed, parked, running, waiting, dead_letter, enqueued)
    select s.type_id, r.x, array(select i.x from unnest(f.xip) as i(x) where i.x < r.x),
           coalesce(o.ready, 0) + s.ready, coalesce(o.delayed, 0) + s.delayed, coalesce(o.parked, 0) + s.parked,
           coalesce(o.running, 0) + s.running, coalesce(o.waiting, 0) + s.waiting, coalesce(o.dead_letter, 0) + s.dead_letter,
           coalesce(o.enqueued, 0) + s.enqueued
    from summed s
    join reach r on r.type_id = s.type_id
    cross join flight f
    left join replaced o on o.type_id = s.type_id
  ), noted as (
    insert into type_minute as m (type_id, minute, enqueued)
    select s.type_id, v_minute, s.enqueued from summed s where s.enqueued > 0
    on conflict on constraint type_minute_pkey do update set enqueued = m.enqueued + excluded.enqueued
  )
  select sum(s.deltas) into v_folded from summed s;
  return coalesce(v_folded, 0);
end
$$;
comment on function fencepost_private.fold_depth(int) is 'A step of maintain(): folds depth deltas into the base of their type. Returns how many.';

-- The transactions that a register must leave uncounted, seen from the calling statement's snapshot: all at or above
-- xmax, and those of xip; our own counts as in flight, though it is not in its own snapshot's list. It must be stable:
-- a volatile function would look with a snapshot of its own.
create function fencepost_private.in_flight(out xmax bigint, out xip bigint[])
language sql
stable
set search_path = fencepost_private, pg_temp
as $$
  select s.xmax, array(select x::text::bigint from pg_snapshot_xip(s.snap) as x union select s.own where s.own < s.xmax)
  from (select snap, pg_snapshot_xmax(snap)::text::bigint as xmax, pg_current_xact_id_if_assigned()::text::bigint as own
        from pg_current_snapshot() as snap offset 0) as s
$$;
comment on function fencepost_private.in_flight() is 'What the present snapshot does not see: transactions at or above xmax, and those in xip, our own among them.';
