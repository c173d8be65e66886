-- Removes watermarks that a newer one of their lane has replaced.
--
-- It reads only what is new since the last pass (maintain_step.position) and, for a lane with a newer watermark, the
-- one that was kept then: whatever was pruned before is dead, and under a held snapshot would be walked for nothing.
-- Once an hour it looks at all. Returns how many were removed.
create function fencepost_private.prune_hints()
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
  v_now    timestamptz := fencepost_private.now();
  v_from   bigint := (select m.position from maintain_step m where m.step = 'prune_hints' and date_trunc('hour', m.last_at) = date_trunc('hour', v_now));
  v_upto   bigint;
  v_pruned bigint;
begin
  with newest as materialized (
    select l.lane_id, h.seq
    from lane l
    cross join lateral (select i.seq from lane_hint i where i.lane_id = l.lane_id order by i.seq desc limit 1) as h
    where h.seq > coalesce(v_from, 0)
  ), replaced as materialized (
    select o.place
    from newest n
    cross join lateral (
      select i.ctid as place from lane_hint i where i.lane_id = n.lane_id and i.seq > coalesce(v_from, 0) and i.seq < n.seq
      union all
      (select i.ctid from lane_hint i where i.lane_id = n.lane_id and i.seq <= v_from order by i.seq desc limit 1)
    ) as o
  ), pruned as (
    delete from lane_hint h where h.ctid = any (array(select r.place from replaced r)) returning h.seq
  )
  select (select count(*) from pruned), (select max(n.seq) from newest n) into v_pruned, v_upto;

  update maintain_step m set position = v_upto where m.step = 'prune_hints' and m.position < v_upto;
  return v_pruned;
end
$$;
comment on function fencepost_private.prune_hints() is 'A step of maintain(): removes replaced watermarks. Returns how many.';
