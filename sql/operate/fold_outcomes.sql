-- Counts the events of the log, each once, into totals by type, kind and outcome, with how long attempts waited and
-- ran. The same technique as fold_depth: what had ended for our snapshot and was not counted before, read by the
-- log's index on xid, at most about p_limit events at once. Returns how many were counted.
-- Call it under maintain()'s lock and in READ COMMITTED.
create function fencepost_private.fold_outcomes(p_limit int default 100000)
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
  v_base   outcome_base;
  v_flight record;
  v_far    bigint;
  v_count  bigint;
begin
  select b.* into v_base from outcome_base b order by b.seq desc limit 1;
  v_base.x := coalesce(v_base.x, 0);
  v_base.xip := coalesce(v_base.xip, '{}');
  -- bounds from one snapshot, the count from a later one: what that sees more is at or above xmax, or in xip
  select f.xmax, f.xip into v_flight from in_flight() f;
  select e.xid into v_far from event e where e.xid >= v_base.x order by e.xid offset p_limit limit 1;
  v_flight.xmax := least(v_flight.xmax, v_far + 1);

  v_count := count_outcomes(v_base.x, v_base.xip, v_flight.xmax, v_flight.xip);
  if v_count > 0 or v_far is not null then
    insert into outcome_base (x, xip) values (v_flight.xmax, array(select i.x from unnest(v_flight.xip) as i(x) where i.x < v_flight.xmax));
    delete from outcome_base b where b.seq = v_base.seq;
  end if;
  return v_count;
end
$$;
comment on function fencepost_private.fold_outcomes(int) is 'A step of maintain(): counts new events into totals and minutes. Returns how many.';

-- Adds events to the totals and minutes: those of transactions from p_from_x (and in p_from_xip, below it) to below
-- p_to_x, but for those in p_to_xip. Returns how many.
create function fencepost_private.count_outcomes(p_from_x bigint, p_from_xip bigint[], p_to_x bigint, p_to_xip bigint[])
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_count bigint;
begin
  -- one pass over the events; what follows works on its few groups
  with grouped as materialized (
    select n.type_id, g.*
    from (
      select e.lane_id, e.kind, e.outcome, date_bin('1 minute', e.at, '2000-01-01 00:00:00+00') as minute,
             width_bucket(e.wait, duration_bounds()) as wait_bucket, width_bucket(e.run, duration_bounds()) as run_bucket,
             count(*) as events, coalesce(sum(e.wait), 0) as wait_seconds, coalesce(sum(e.run), 0) as run_seconds
      from (
        select u.lane_id, u.kind, u.outcome, u.at,
               case when u.outcome is not null then date_part('epoch', u.started_at - u.ready_at) end as wait,
               case when u.outcome is not null then date_part('epoch', u.at - u.started_at) end as run
        from (
          select i.* from event i where i.xid >= p_from_x and i.xid < p_to_x and not i.xid = any (p_to_xip)
          union all
          select i.* from event i where i.xid = any (p_from_xip) and i.xid < p_from_x and not i.xid = any (p_to_xip)
        ) as u
        where u.job_id is not null and u.kind not in ('job.enqueued', 'job.started')
      ) as e
      group by 1, 2, 3, 4, 5, 6
    ) as g
    join lane n on n.lane_id = g.lane_id
  ), summed as materialized (
    select g.type_id, g.kind, g.outcome, sum(g.events)::bigint as events, sum(g.wait_seconds) as wait_seconds, sum(g.run_seconds) as run_seconds
    from grouped g group by g.type_id, g.kind, g.outcome
  ), waits as materialized (
    select g.type_id, g.kind, g.outcome, g.wait_bucket as bucket, sum(g.events)::bigint as attempts
    from grouped g where g.outcome is not null group by g.type_id, g.kind, g.outcome, g.wait_bucket
  ), runs as materialized (
    select g.type_id, g.kind, g.outcome, g.run_bucket as bucket, sum(g.events)::bigint as attempts
    from grouped g where g.outcome is not null group by g.type_id, g.kind, g.outcome, g.run_bucket
  ), older as materialized (
    select o.*
    from summed s
    cross join lateral (
      select t.* from outcome_total t
      where t.type_id = s.type_id and t.kind = s.kind and t.outcome is not distinct from s.outcome
      order by t.seq desc limit 1
    ) as o
  ), replaced as (
    delete from outcome_total t using older o
    where t.type_id = o.type_id and t.kind = o.kind and t.seq = o.seq
  ), put as (
    insert into outcome_total (type_id, kind, outcome, events, wait_seconds, wait_counts, run_seconds, run_counts)
    select s.type_id, s.kind, s.outcome, coalesce(o.events, 0) + s.events,
           coalesce(o.wait_seconds, 0) + s.wait_seconds,
           array(select coalesce(o.wait_counts[i + 1], 0) + coalesce(w.attempts, 0)
                 from generate_series(0, cardinality(duration_bounds())) as i
                 left join waits w on w.type_id = s.type_id and w.kind = s.kind and w.outcome = s.outcome and w.bucket = i order by i),
           coalesce(o.run_seconds, 0) + s.run_seconds,
           array(select coalesce(o.run_counts[i + 1], 0) + coalesce(r.attempts, 0)
                 from generate_series(0, cardinality(duration_bounds())) as i
                 left join runs r on r.type_id = s.type_id and r.kind = s.kind and r.outcome = s.outcome and r.bucket = i order by i)
    from summed s
    left join older o on o.type_id = s.type_id and o.kind = s.kind and o.outcome is not distinct from s.outcome
  ), noted as (
    insert into type_minute as m (type_id, minute, completed, failed, dead_lettered)
    select g.type_id, g.minute, coalesce(sum(g.events) filter (where g.kind = 'job.completed'), 0),
           coalesce(sum(g.events) filter (where g.outcome in ('failed', 'timed_out', 'lease_expired')), 0),
           coalesce(sum(g.events) filter (where g.kind = 'job.dead_lettered'), 0)
    from grouped g
    where g.kind in ('job.completed', 'job.dead_lettered') or g.outcome in ('failed', 'timed_out', 'lease_expired')
    group by g.type_id, g.minute
    on conflict on constraint type_minute_pkey do update
    set completed = m.completed + excluded.completed, failed = m.failed + excluded.failed, dead_lettered = m.dead_lettered + excluded.dead_lettered
  )
  select sum(s.events) into v_count from summed s;
  return coalesce(v_count, 0);
end
$$;
comment on function fencepost_private.count_outcomes(bigint, bigint[], bigint, bigint[]) is 'Adds the events of a range of transactions to totals and minutes. Returns how many.';

-- The buckets of wait and run times, in seconds: upper bounds. They never change, since counts are kept by them.
create function fencepost_private.duration_bounds() returns double precision[]
language sql immutable parallel safe
return array[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600]::double precision[];
comment on function fencepost_private.duration_bounds() is 'Upper bounds, in seconds, of the buckets in which wait and run times are counted.';

-- Minutes older than three hours: rates and charts look no further back.
create function fencepost_private.prune_minutes()
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_pruned bigint;
begin
  delete from type_minute m where m.minute < fencepost_private.now() - interval '3 hours';
  get diagnostics v_pruned = row_count;
  return v_pruned;
end
$$;
comment on function fencepost_private.prune_minutes() is 'A step of maintain(): forgets minutes older than three hours. Returns how many.';
