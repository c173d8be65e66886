-- Moves delayed jobs whose time has come to their lanes, oldest first, at most p_limit, and wakes who sleeps for them.
-- With p_window only what became due within it: claims pass two seconds, so that under a held snapshot they never
-- walk the dead head of the index; maintain() passes five minutes, and null once a minute, for what was committed late.
-- Locks: the rows it moves, SKIP LOCKED.
create function fencepost_private.promote(p_limit int default 1000, p_window interval default null, p_now timestamptz default fencepost_private.now())
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
  v_from  timestamptz := coalesce(p_now - p_window, '-infinity');
  v_types int[];
  v_count bigint;
  v_xid   bigint;
begin
  if not exists (
    select from (select d.available_at from delayed d where d.available_at >= v_from order by d.available_at limit 1) as first
    where first.available_at <= p_now
  ) then
    return 0;
  end if;

  v_xid := xid();
  with due as (
    delete from delayed d
    where d.ctid = any (array(
      select c.ctid from delayed c
      where c.available_at >= v_from and c.available_at <= p_now
      order by c.available_at, c.id limit p_limit
      for update skip locked))
    returning d.*
  ), promoted as (
    insert into ready (id, xid, lane_id, attempts, token, ready_at)
    select d.id, v_xid, d.lane_id, d.attempts, d.token, d.available_at from due d order by d.available_at, d.id
  ), counted as (
    insert into depth_delta (type_id, xid, delayed, ready)
    select l.type_id, v_xid, -sum(d.n), sum(d.n)
    from (select lane_id, count(*) as n from due group by lane_id) as d
    join lane l on l.lane_id = d.lane_id
    group by l.type_id
    returning type_id
  )
  select (select count(*) from due), (select array_agg(c.type_id) from counted c) into v_count, v_types;
  perform wake(v_types);
  return v_count;
end
$$;
comment on function fencepost_private.promote(int, interval, timestamptz) is 'Moves up to p_limit due jobs from delayed to ready; with p_window only those that became due within it.';
