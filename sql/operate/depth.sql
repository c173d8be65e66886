-- How many jobs stand where, exact in the reader's snapshot and without counting them: the newest folded base of a
-- type, plus the deltas that it has not counted: those of transactions at or above its x, and of those in its xip.
-- Deltas that are folded leave dead index entries below x; no reader ever walks them: "offset 0" makes the look-up of a
-- late transaction a probe by type and transaction.

-- By type and place; with a type, that one alone.
create function fencepost_private.depth(p_type_id int default null)
returns table (type_id int, ready bigint, delayed bigint, parked bigint, running bigint, waiting bigint, dead_letter bigint, enqueued bigint)
language sql
stable
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
  select t.type_id,
         coalesce(b.ready, 0) + d.ready, coalesce(b.delayed, 0) + d.delayed, coalesce(b.parked, 0) + d.parked,
         coalesce(b.running, 0) + d.running, coalesce(b.waiting, 0) + d.waiting,
         coalesce(b.dead_letter, 0) + d.dead_letter, coalesce(b.enqueued, 0) + d.enqueued
  from job_type t
  left join lateral (select n.* from depth_base n where n.type_id = t.type_id order by n.seq desc limit 1) as b on true
  cross join lateral (
    select coalesce(sum(u.ready), 0) as ready, coalesce(sum(u.delayed), 0) as delayed, coalesce(sum(u.parked), 0) as parked,
           coalesce(sum(u.running), 0) as running, coalesce(sum(u.waiting), 0) as waiting,
           coalesce(sum(u.dead_letter), 0) as dead_letter, coalesce(sum(u.enqueued), 0) as enqueued
    from (
      select n.* from depth_delta n where n.type_id = t.type_id and n.xid >= coalesce(b.x, 0)
      union all
      select late.*
      from unnest(b.xip) as e(x)
      cross join lateral (select n.* from depth_delta n where n.type_id = t.type_id and n.xid = e.x offset 0) as late
      where e.x < b.x
    ) as u
  ) as d
  where p_type_id is null or t.type_id = p_type_id
$$;
comment on function fencepost_private.depth(int) is 'Jobs by type and place, exact in this snapshot, from counters.';

-- The two that the hot path asks for one type, own uncommitted changes included. In PL/pgSQL, which keeps their plans.
create function fencepost_private.running(p_type_id int)
returns bigint
language plpgsql
stable
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_base  depth_base;
  v_fresh bigint;
  v_late  bigint := 0;
begin
  select b.* into v_base from depth_base b where b.type_id = p_type_id order by b.seq desc limit 1;
  select sum(d.running) into v_fresh from depth_delta d where d.type_id = p_type_id and d.xid >= coalesce(v_base.x, 0);
  if cardinality(v_base.xip) > 0 then
    select sum(late.jobs) into v_late
    from unnest(v_base.xip) as e(x)
    cross join lateral (select d.running as jobs from depth_delta d where d.type_id = p_type_id and d.xid = e.x offset 0) as late
    where e.x < v_base.x;
  end if;
  return coalesce(v_base.running, 0) + coalesce(v_fresh, 0) + coalesce(v_late, 0);
end
$$;
comment on function fencepost_private.running(int) is 'How many jobs of a type are running, exact in this snapshot, from counters.';

create function fencepost_private.pending(p_type_id int)
returns bigint
language plpgsql
stable
security definer
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_base  depth_base;
  v_fresh bigint;
  v_late  bigint := 0;
begin
  select b.* into v_base from depth_base b where b.type_id = p_type_id order by b.seq desc limit 1;
  select sum(d.ready + d.delayed + d.parked) into v_fresh from depth_delta d where d.type_id = p_type_id and d.xid >= coalesce(v_base.x, 0);
  if cardinality(v_base.xip) > 0 then
    select sum(late.jobs) into v_late
    from unnest(v_base.xip) as e(x)
    cross join lateral (select d.ready + d.delayed + d.parked as jobs from depth_delta d where d.type_id = p_type_id and d.xid = e.x offset 0) as late
    where e.x < v_base.x;
  end if;
  return coalesce(v_base.ready + v_base.delayed + v_base.parked, 0) + coalesce(v_fresh, 0) + coalesce(v_late, 0);
end
$$;
comment on function fencepost_private.pending(int) is 'How many jobs of a type wait (ready, delayed or parked), exact in this snapshot, from counters.';
