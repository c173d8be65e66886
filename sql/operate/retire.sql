-- Removing what has ended. Finished jobs are kept for keep_finished of their type, then their body goes, and with it
-- their idempotency key, steps and progress; events go by whole partitions, once no body is left that they tell of.
--
-- A partition of job in which every job ended long enough ago is dropped whole, which costs nothing. That is what
-- happens at high rates. The others (low rates; partitions that a few dead letters or delayed jobs hold) lose their
-- ended jobs row by row, in small batches.

-- The longest time for which any type keeps its finished jobs.
create function fencepost_private.longest_keep() returns interval
language sql stable
return (select coalesce(max(t.keep_finished), interval '7 days') from fencepost_private.job_type t);
comment on function fencepost_private.longest_keep() is 'The longest keep_finished of all types.';

-- Whether a job with an id in this range is alive, in any place.
create function fencepost_private.is_inhabited(p_first bigint, p_end bigint)
returns boolean
language sql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
  select exists (select from dead_letter z where z.id >= p_first and z.id < p_end)
      or exists (select from delayed d where d.id >= p_first and d.id < p_end)
      or exists (select from suspended s where s.id >= p_first and s.id < p_end)
      or exists (select from parked p where p.id >= p_first and p.id < p_end)
      or exists (select from lease l where l.id >= p_first and l.id < p_end)
      or exists (select from ready r where r.id >= p_first and r.id < p_end)
$$;
comment on function fencepost_private.is_inhabited(bigint, bigint) is 'Whether any job with an id from p_first to below p_end is alive (or dead-lettered).';

-- Notes the partitions of job in which nothing is alive any more: they can be dropped when the longest keep_finished
-- has passed since. Looks at one partition a call, the oldest first, and at the next when that one is still inhabited.
create function fencepost_private.drain_partitions()
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_now  timestamptz := fencepost_private.now();
  v_from bigint := (select m.position from maintain_step m where m.step = 'drain_partitions');
  v_next record;
begin
  select p.name, p.first_id, p.end_id into v_next
  from partitions('job') p
  where p.end_id <= last_id('job') and not exists (select from partition_fate f where f.partition = p.name)
  order by p.first_id < v_from, p.first_id
  limit 1;
  if not found then
    return 0;
  end if;
  update maintain_step m set position = v_next.end_id where m.step = 'drain_partitions';
  if is_inhabited(v_next.first_id, v_next.end_id) then
    return 0;
  end if;
  insert into partition_fate (partition, drained_at) values (v_next.name, v_now);
  return 1;
end
$$;
comment on function fencepost_private.drain_partitions() is 'A step of maintain(): notes a partition of job in which nothing is alive any more. Returns how many.';

-- Removes finished jobs, one by one, whose keep_finished has passed: walks the bodies by id, p_limit a call, from
-- where it stopped, up to the first that is too young to have ended long enough ago. Then it rests for a hundredth of
-- the shortest keep_finished, at most an hour. Partitions that will soon be dropped whole are passed over.
-- Returns how many jobs it removed.
create function fencepost_private.retire_jobs(p_limit int default 1000)
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
  v_now     timestamptz := fencepost_private.now();
  v_step    maintain_step;
  v_from    bigint;
  v_least   interval := (select min(t.keep_finished) from job_type t);
  v_most    interval := longest_keep();
  v_skipped int8multirange;
  v_last    bigint;
  v_looked  bigint;
  v_retired bigint;
begin
  select m.* into v_step from maintain_step m where m.step = 'retire_jobs';
  v_from := v_step.position;
  if v_least is null or v_from = 0 and v_step.last_at > v_now - least(interval '1 hour', v_least / 100) then
    return 0;      -- no type, hence no job; or it rests
  end if;
  select coalesce(range_agg(int8range(p.first_id, p.end_id)), '{}') into v_skipped
  from partitions('job') p
  join partition_fate f on f.partition = p.name
  where f.drained_at + v_most <= v_now + v_most / 4;
  v_from := coalesce((select upper(r) - 1 from unnest(v_skipped) as r where r @> v_from + 1), v_from);

  with old as materialized (
    select b.id, b.lane_id, b.created_at <= v_now - v_least as is_old from job b where b.id > v_from order by b.id limit p_limit
  ), ended as materialized (
    select o.id
    from old o
    join lane n on n.lane_id = o.lane_id
    join job_type t on t.type_id = n.type_id
    where o.is_old and not v_skipped @> o.id
      and exists (select from event e where e.job_id = o.id and e.kind in ('job.completed', 'job.cancelled', 'job.discarded')
                  and e.at <= v_now - t.keep_finished)
  ), retired as (
    delete from job b using ended e where b.id = e.id returning b.id
  ), keys as (
    delete from idempotency_key k using ended e where k.job_id = e.id
  ), steps as (
    delete from step s using ended e where s.job_id = e.id
  ), told as (
    delete from progress g using ended e where g.job_id = e.id
  )
  select (select max(o.id) from old o), (select count(*) from old o where o.is_old), (select count(*) from retired) into v_last, v_looked, v_retired;

  update maintain_step m
  set position = case when v_looked = p_limit then v_last else 0 end, last_at = v_now
  where m.step = 'retire_jobs';
  return v_retired;
end
$$;
comment on function fencepost_private.retire_jobs(int) is 'A step of maintain(): removes finished jobs whose keep_finished has passed, row by row. Returns how many.';
