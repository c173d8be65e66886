-- Which lanes a claim looks at, in order: highest priority first, and within a priority from a random start, so that
-- no type starves another. Stops after p_limit lanes that have work: the rows come sorted from the inner query and
-- the probes of hint and head are made lane by lane. Fairness and weights will replace this function alone.
--
-- A lane counts only if a row of it is there: at its watermark, or of a late transaction, or held. That something is
-- *listed* as late is not enough: while any transaction in the cluster writes for long, it is listed by every lane,
-- and the first p_limit idle ones would keep a claim from all others.
create function fencepost_private.pick_lanes(p_types text[], p_limit int)
returns table (lane_id int, priority smallint, type_id int, type text, max_running int, max_attempts int, timeout interval,
               publish_started boolean, hint fencepost_private.lane_hint)
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
#variable_conflict use_column
declare
  v_salt int := (random() * 2147483647)::int;
begin
  return query
  select l.lane_id, l.priority, l.type_id, l.type, l.max_running, l.max_attempts, l.timeout, l.publish_started, newest.hint
  from (
    select n.lane_id, n.priority, t.type_id, t.type, t.max_running, t.max_attempts, t.timeout, t.publish_started
    from job_type t
    join lane n on n.type_id = t.type_id
    where t.type = any (p_types) and not t.paused
    order by n.priority desc, hashint4(n.lane_id # v_salt)
    offset 0
  ) as l
  left join lateral (
    select h.hint
    from (select i as hint, i.boot from lane_hint i where i.lane_id = l.lane_id order by i.seq desc limit 1) as h
    where h.boot = pg_postmaster_start_time()
  ) as newest on true
  left join lateral (
    select r.id from ready r
    where r.lane_id = l.lane_id and (r.xid, r.id) >= (coalesce((newest.hint).wx, 0), coalesce((newest.hint).wi, 0))
    order by r.xid, r.id limit 1
  ) as head on true
  where head.id is not null
     or exists (select from unnest((newest.hint).late_x, (newest.hint).late_i) as e(x, first_id)
                join ready r on r.lane_id = l.lane_id and r.xid = e.x and r.id >= e.first_id)
     or exists (select from unnest((newest.hint).held) as h(id) join ready r on r.id = h.id and r.lane_id + 0 = l.lane_id)
  limit p_limit;
end
$$;
comment on function fencepost_private.pick_lanes(text[], int) is 'The lanes with work that a claim of these types examines, in order, with their settings and watermarks.';
