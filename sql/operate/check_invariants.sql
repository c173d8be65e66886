-- An fsck for the engine: what must always be true, checked in one snapshot, at any time, in production too. No row is
-- good news; each row names an invariant that is broken and where (at most twenty for each).
--
-- All places are read, and the newest `bodies` jobs with their events, and as many runs (null reads all of them): a few seconds a million.
-- Reads only.
--
-- It is stable on purpose: all its statements then see the one snapshot of the caller's.
create function fencepost.check_invariants(bodies bigint default 1000000)
returns table (invariant text, detail text)
language plpgsql
stable
security definer
set search_path = fencepost_private, pg_temp
set jit = off
as $$
declare
  v_first bigint := coalesce(greatest(0, last_id('job') - check_invariants.bodies), 0);
begin
  return query select c.invariant, c.detail from check_places(v_first) as c;
  return query select c.invariant, c.detail from check_attempts(v_first) as c;
  return query select c.invariant, c.detail from check_registers() as c;
  return query select c.invariant, c.detail
  from check_run_invariants(coalesce(greatest(0, (select s.last_value from run_id_seq s) - check_invariants.bodies), 0)) as c;
end
$$;
comment on function fencepost.check_invariants(bigint) is 'What must always be true and is not: no row means healthy. Reads all places and the newest bodies (null: all), in one snapshot.';

-- Where jobs stand: each in exactly one place, or ended by exactly one event.
create function fencepost_private.check_places(p_first bigint)
returns table (invariant text, detail text)
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
begin
  return query
  select 'a job is in one place', format('job %s is in %s', p.id, string_agg(p.place, ', '))
  from held_places() p group by p.id having count(*) > 1 order by p.id limit 20;

  return query
  select 'a job that has ended is in no place', format('job %s has %s and is in %s', p.id, e.kind, p.place)
  from held_places() p join event e on e.job_id = p.id
  where e.kind in ('job.completed', 'job.cancelled', 'job.discarded') order by p.id limit 20;

  return query
  select 'a job in a place has a body', format('job %s is in %s', p.id, p.place)
  from held_places() p where not exists (select from job b where b.id = p.id) order by p.id limit 20;

  return query
  select 'a place names a lane', format('job %s in %s names lane %s', p.id, p.place, p.lane_id)
  from held_places() p where not exists (select from lane l where l.lane_id = p.lane_id) order by p.id limit 20;

  return query
  select 'a job is in a place or has ended', format('job %s is nowhere', b.id)
  from job b
  where b.id > p_first
    and not exists (select from held_places() p where p.id = b.id)
    and not exists (select from event e where e.job_id = b.id and e.kind in ('job.completed', 'job.cancelled', 'job.discarded'))
  order by b.id limit 20;

  return query
  select 'a job ends once', format('job %s has %s', e.job_id, string_agg(e.kind::text, ', ' order by e.id))
  from event e
  where e.job_id > p_first and e.kind in ('job.completed', 'job.cancelled', 'job.discarded')
  group by e.job_id having count(*) > 1 order by e.job_id limit 20;

  return query
  select 'no claim misses a ready job', format('job %s lies below the watermark of lane %s', u.id, u.lane_id)
  from unreachable_ready() u order by u.id limit 20;
end
$$;
comment on function fencepost_private.check_places(bigint) is 'check_invariants, of places.';

-- The rows of all places.
create function fencepost_private.held_places()
returns table (place text, id bigint, lane_id int, attempts int, token int)
language sql
stable
set search_path = fencepost_private, pg_temp
as $$
  select 'ready', r.id, r.lane_id, r.attempts, r.token from ready r
  union all select 'delayed', d.id, d.lane_id, d.attempts, d.token from delayed d
  union all select 'parked', p.id, p.lane_id, p.attempts, p.token from parked p
  union all select 'suspended', s.id, s.lane_id, s.attempts, s.token from suspended s
  union all select 'lease', l.id, l.lane_id, l.attempts, l.token from lease l
  union all select 'dead_letter', z.id, z.lane_id, z.attempts, z.token from dead_letter z
$$;
comment on function fencepost_private.held_places() is 'Every job that is alive or dead-lettered, with the place that holds it.';

-- Tokens and attempts: the places agree with the log.
create function fencepost_private.check_attempts(p_first bigint)
returns table (invariant text, detail text)
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
begin
  return query
  select 'an attempt ends once', format('attempt of job %s under token %s has %s', e.job_id, e.token, string_agg(e.kind::text, ', ' order by e.id))
  from event e where e.job_id > p_first and e.outcome is not null
  group by e.job_id, e.token having count(*) > 1 order by e.job_id limit 20;

  -- the fold of a job's events says what its place must carry
  return query
  with last_event as materialized (
    select distinct on (e.job_id) e.job_id, e.kind, e.token,
           case e.kind when 'job.retry_scheduled' then e.attempt when 'job.dead_lettered' then e.attempt when 'job.replayed' then 0 else e.attempt - 1 end as attempts
    from event e
    where e.job_id > p_first and e.kind in ('job.retry_scheduled', 'job.released', 'job.suspended', 'job.dead_lettered', 'job.replayed')
    order by e.job_id, e.id desc
  ), folded as (
    select p.place, p.id, p.attempts, p.token, coalesce(l.kind::text, 'no attempt') as last,
           coalesce(l.attempts, 0) + case p.place when 'lease' then 1 else 0 end as due_attempts,
           coalesce(l.token, 0) + case p.place when 'lease' then 1 else 0 end as due_token,
           (p.place = 'dead_letter') = (l.kind is not distinct from 'job.dead_lettered') as is_there
    from held_places() p left join last_event l on l.job_id = p.id
    where p.id > p_first
  )
  select 'places agree with the log', format('job %s is in %s with attempts %s, token %s; after %s they would be %s and %s', f.id, f.place, f.attempts, f.token, f.last, f.due_attempts, f.due_token)
  from folded f
  where not f.is_there or f.attempts <> f.due_attempts or f.token <> f.due_token
  order by f.id limit 20;

  return query
  select 'a lease belongs to a worker', format('job %s is leased to worker %s, which is %s', l.id, l.worker_id, case when w.worker_id is null then 'unknown' else 'closed' end)
  from lease l left join worker w on w.worker_id = l.worker_id
  where w.worker_id is null or w.swept
  order by l.id limit 20;
end
$$;
comment on function fencepost_private.check_attempts(bigint) is 'check_invariants, of attempts and leases.';

-- Counters and keys.
create function fencepost_private.check_registers()
returns table (invariant text, detail text)
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
begin
  return query
  with counted as (
    select l.type_id, count(*) filter (where p.place = 'ready') as ready, count(*) filter (where p.place = 'delayed') as delayed,
           count(*) filter (where p.place = 'parked') as parked, count(*) filter (where p.place = 'lease') as running,
           count(*) filter (where p.place = 'suspended') as waiting, count(*) filter (where p.place = 'dead_letter') as dead_letter
    from held_places() p join lane l on l.lane_id = p.lane_id group by l.type_id
  )
  select 'counters agree with the places', format('type %s: counters say %s, the places hold %s', t.type,
           row(d.ready, d.delayed, d.parked, d.running, d.waiting, d.dead_letter),
           row(coalesce(c.ready, 0), coalesce(c.delayed, 0), coalesce(c.parked, 0), coalesce(c.running, 0), coalesce(c.waiting, 0), coalesce(c.dead_letter, 0)))
  from depth() d
  join job_type t on t.type_id = d.type_id
  left join counted c on c.type_id = d.type_id
  where (d.ready, d.delayed, d.parked, d.running, d.waiting, d.dead_letter)
     is distinct from (coalesce(c.ready, 0), coalesce(c.delayed, 0), coalesce(c.parked, 0), coalesce(c.running, 0), coalesce(c.waiting, 0), coalesce(c.dead_letter, 0))
  order by t.type limit 20;

  return query
  select 'an idempotency key names its job', format('key %s of type %s names job %s', quote_literal(k.key), t.type, k.job_id)
  from idempotency_key k
  join job_type t on t.type_id = k.type_id
  left join job b on b.id = k.job_id
  where b.idempotency_key is distinct from k.key or b.tenant <> k.tenant
  order by k.job_id limit 20;

  return query
  select 'transaction numbers are this server''s', 'rows carry those of another one: call fencepost.after_restore()'
  where is_restored();
end
$$;
comment on function fencepost_private.check_registers() is 'check_invariants, of counters and keys.';
