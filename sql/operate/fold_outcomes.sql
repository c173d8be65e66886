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
set enable_mergejoin = off
set jit = off
as $$
declare
  v_base   outcome_base;
  v_flight record;
  v_far    bigint;
  v_count  bigint;
begin
  select b.* into v_base from outcome_base b order by b.seq desc limit 1;
  -- any snapshot will do for the bounds, if the count reads a later one: what it sees more is above xmax or in xip
  select f.xmax, f.xip into v_flight from in_flight() f;
  v_base.x := coalesce(v_base.x, 0);
  v_base.xip := coalesce(v_base.xip, '{}');
  select e.xid into v_far from event e where e.xid >= v_base.x order by e.xid offset p_limit limit 1;
  v_flight.xmax := least(v_flight.xmax, v_far + 1);

  with fresh as materialized (
    select n.type_id, e.kind, e.outcome, e.at,
           extract(epoch from e.started_at - e.ready_at)::double precision as wait, extract(epoch from e.at - e.started_at)::double precision as run
    from (
      select u.* from event u where u.xid >= v_base.x and u.xid < v_flight.xmax and not u.xid = any (v_flight.xip)
      union all
      select u.* from event u where u.xid = any (v_base.xip) and u.xid < v_base.x and not u.xid = any (v_flight.xip)
    ) as e
    join lane n on n.lane_id = e.lane_id
    where e.job_id is not null and e.kind not in ('job.enqueued', 'job.started')
  ), measured as materialized (
    select f.*, width_bucket(f.wait, duration_bounds()) as wait_bucket, width_bucket(f.run, duration_bounds()) as run_bucket from fresh f
  ), summed as materialized (
    select m.type_id, m.kind, m.outcome, count(*) as events,
           coalesce(sum(m.wait) filter (where m.outcome is not null), 0) as wait_seconds,
           coalesce(sum(m.run) filter (where m.outcome is not null), 0) as run_seconds
    from measured m group by m.type_id, m.kind, m.outcome
  ), waits as materialized (
    select m.type_id, m.kind, m.outcome, m.wait_bucket as bucket, count(*) as attempts
    from measured m where m.outcome is not null group by m.type_id, m.kind, m.outcome, m.wait_bucket
  ), runs as materialized (
    select m.type_id, m.kind, m.outcome, m.run_bucket as bucket, count(*) as attempts
    from measured m where m.outcome is not null group by m.type_id, m.kind, m.outcome, m.run_bucket
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
    select f.type_id, date_trunc('minute', f.at), count(*) filter (where f.kind = 'job.completed'),
           count(*) filter (where f.outcome in ('failed', 'timed_out', 'lease_expired')),
           count(*) filter (where f.kind = 'job.dead_lettered')
    from fresh f
    where f.kind in ('job.completed', 'job.retry_scheduled', 'job.dead_lettered') or f.outcome in ('failed', 'timed_out', 'lease_expired')
    group by f.type_id, date_trunc('minute', f.at)
    on conflict on constraint type_minute_pkey do update
    set completed = m.completed + excluded.completed, failed = m.failed + excluded.failed, dead_lettered = m.dead_lettered + excluded.dead_lettered
  )
  select sum(s.events) into v_count from summed s;

  if v_count > 0 or v_far is not null then
    insert into outcome_base (x, xip) values (v_flight.xmax, array(select i.x from unnest(v_flight.xip) as i(x) where i.x < v_flight.xmax));
    delete from outcome_base b where b.seq = v_base.seq;
  end if;
  return coalesce(v_count, 0);
end
$$;
comment on function fencepost_private.fold_outcomes(int) is 'A step of maintain(): counts new events into totals and minutes. Returns how many.';

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
