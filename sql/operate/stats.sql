-- How each type stands now: depths (exact), the age of its oldest ready job, totals since the beginning, rates over
-- the last one to two minutes, and who works on it. From counters and from the heads of lanes; nothing is counted.
-- Totals of outcomes and rates are as fresh as the last maintain().
-- Errors: JE002 for a type that does not exist.
create type fencepost.type_stats as (
  type text, ready bigint, delayed bigint, parked bigint, pending bigint, running bigint, waiting bigint, dead_letter bigint,
  oldest_ready_seconds double precision,
  enqueued_total bigint, completed_total bigint, failed_attempts_total bigint, retried_total bigint, dead_lettered_total bigint,
  cancelled_total bigint, discarded_total bigint, replayed_total bigint, lease_expired_total bigint,
  enqueued_per_second double precision, completed_per_second double precision, failed_per_second double precision,
  workers bigint, draining_workers bigint, paused boolean, accept boolean, max_running int, max_pending int, dead_letter_alert int);
comment on type fencepost.type_stats is 'A row of fencepost.stats(): pending is ready, delayed and parked together.';

create function fencepost.stats(type text default null)
returns setof fencepost.type_stats
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_now     timestamptz := fencepost_private.now();
  v_since   timestamptz := date_trunc('minute', v_now) - interval '1 minute';
  v_seconds double precision := extract(epoch from v_now - v_since);
  v_type_id int;
begin
  if stats.type is not null then
    perform check_type_exists(stats.type);
    select t.type_id into v_type_id from job_type t where t.type = stats.type;
  end if;

  return query
  with totals as materialized (
    select o.type_id,
           sum(o.events) filter (where o.kind = 'job.completed') as completed,
           sum(o.events) filter (where o.outcome in ('failed', 'timed_out', 'lease_expired')) as failed,
           sum(o.events) filter (where o.kind = 'job.retry_scheduled') as retried,
           sum(o.events) filter (where o.kind = 'job.dead_lettered') as dead_lettered,
           sum(o.events) filter (where o.kind = 'job.cancelled') as cancelled,
           sum(o.events) filter (where o.kind = 'job.discarded') as discarded,
           sum(o.events) filter (where o.kind = 'job.replayed') as replayed,
           sum(o.events) filter (where o.outcome = 'lease_expired') as lease_expired
    from outcome_total o
    where v_type_id is null or o.type_id = v_type_id
    group by o.type_id
  ), serving as materialized (
    select s.type, count(*) filter (where w.status = 'active') as active, count(*) filter (where w.status = 'draining') as draining
    from worker w cross join unnest(w.types) as s(type)
    where w.status in ('active', 'draining') and w.heartbeat_at > v_now - w.ttl
    group by s.type
  )
  select t.type, d.ready, d.delayed, d.parked, d.ready + d.delayed + d.parked, d.running, d.waiting, d.dead_letter,
         case when d.ready > 0 then extract(epoch from v_now - oldest_ready(t.type_id))::double precision end,
         d.enqueued, coalesce(o.completed, 0)::bigint, coalesce(o.failed, 0)::bigint, coalesce(o.retried, 0)::bigint, coalesce(o.dead_lettered, 0)::bigint,
         coalesce(o.cancelled, 0)::bigint, coalesce(o.discarded, 0)::bigint, coalesce(o.replayed, 0)::bigint, coalesce(o.lease_expired, 0)::bigint,
         m.enqueued / v_seconds, m.completed / v_seconds, m.failed / v_seconds,
         coalesce(s.active, 0), coalesce(s.draining, 0), t.paused, t.accept, t.max_running, t.max_pending, t.dead_letter_alert
  from depth(v_type_id) d
  join job_type t on t.type_id = d.type_id
  left join totals o on o.type_id = t.type_id
  left join serving s on s.type = t.type
  cross join lateral (
    select coalesce(sum(i.enqueued), 0)::double precision as enqueued, coalesce(sum(i.completed), 0)::double precision as completed,
           coalesce(sum(i.failed), 0)::double precision as failed
    from type_minute i where i.type_id = t.type_id and i.minute >= v_since
  ) as m
  order by t.type;
end
$$;
comment on function fencepost.stats(text) is 'Depths, oldest ready age, totals, rates and workers of each type, from counters. Raises JE002.';

-- Since when the oldest ready job of a type could have been claimed: the heads of its lanes, as a claim finds them.
create function fencepost_private.oldest_ready(p_type_id int)
returns timestamptz
language sql
stable
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
  select min(head.ready_at)
  from lane l
  left join lateral (
    select h.* from (select i.* from lane_hint i where i.lane_id = l.lane_id order by i.seq desc limit 1) as h
    where h.boot = pg_postmaster_start_time()
  ) as hint on true
  cross join lateral (
    (select r.ready_at from ready r
     where r.lane_id = l.lane_id and (r.xid, r.id) >= (coalesce(hint.wx, 0), coalesce(hint.wi, 0))
     order by r.xid, r.id limit 1)
    union all
    (select q.ready_at
     from unnest(hint.late_x, hint.late_i) as e(x, first_id)
     cross join lateral (select r.ready_at from ready r where r.lane_id = l.lane_id and r.xid = e.x and r.id >= e.first_id order by r.id limit 1) as q)
    union all
    (select r.ready_at from ready r where r.id = any (hint.held) and r.lane_id + 0 = l.lane_id)
  ) as head
  where l.type_id = p_type_id
$$;
comment on function fencepost_private.oldest_ready(int) is 'Since when the first ready job of a type waits; null when none does.';
