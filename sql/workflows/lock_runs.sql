-- Whoever moves a job of a run holds the run first: the global order is run, task, job. The engine of jobs calls these
-- before it locks any job, set-wise. One lock, that of the root run, serves a whole family of child runs, so parents
-- and children cannot deadlock. Who changes anything under it says so by touch_roots.
--
-- Why the planner's switches stand in these heads, and in all of this folder: see advance.sql, "Plans".

-- Locks the root runs of these jobs in id order.
create function fencepost_private.lock_runs_of(p_job_ids bigint[]) returns void
language plpgsql volatile
set search_path = fencepost_private, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
begin
  perform lock_roots(array(select distinct b.run_id from unnest(p_job_ids) as i(id) join job b on b.id = i.id where b.run_id is not null));
end
$$;
comment on function fencepost_private.lock_runs_of(bigint[]) is 'Locks the root runs of these jobs in id order; waits.';

-- The same for jobs that are leased, from their leases, at a third of the cost.
create function fencepost_private.lock_runs_of_leases(p_job_ids bigint[]) returns void
language plpgsql volatile
set search_path = fencepost_private, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_runs bigint[] := array(select distinct l.run_id from lease l where l.id = any (p_job_ids) and l.run_id is not null);
begin
  if cardinality(v_runs) > 0 then
    perform lock_roots(v_runs);
  end if;
end
$$;
comment on function fencepost_private.lock_runs_of_leases(bigint[]) is 'Locks the root runs of these leased jobs in id order; waits.';

-- The roots of these runs, in id order: waits for whoever holds one.
create function fencepost_private.lock_roots(p_run_ids bigint[]) returns void
language plpgsql volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
begin
  if cardinality(p_run_ids) > 0 then
    perform from run r
    where r.run_id = any (array(select distinct c.root_run_id from run c where c.run_id = any (p_run_ids)))
    order by r.run_id
    for no key update;
  end if;
end
$$;
comment on function fencepost_private.lock_roots(bigint[]) is 'Locks the roots of these runs in id order; waits.';

-- A family has changed: its root's row gets a new version. Whoever locks that row by an older snapshot (REPEATABLE READ
-- or SERIALIZABLE) is then told 40001, do it again, instead of deciding by what was true before. So every change under
-- the lock ends here: settle_runs calls this for all that changes numbers, whatever changes none calls it by itself.
create function fencepost_private.touch_roots(p_run_ids bigint[]) returns void
language plpgsql volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
begin
  update run r set root_run_id = r.root_run_id
  where r.run_id = any (array(select distinct c.root_run_id from run c where c.run_id = any (p_run_ids)));
end
$$;
comment on function fencepost_private.touch_roots(bigint[]) is 'Tells whoever locks the roots of these runs by an older snapshot that something has changed (40001).';

-- An exchange never waits for a run: of these leased jobs, those whose root run is locked by somebody else. The others' roots are locked.
create function fencepost_private.busy_jobs(p_job_ids bigint[]) returns bigint[]
language plpgsql volatile
set search_path = fencepost_private, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_roots bigint[] := array(
    select distinct r.root_run_id
    from (select l.run_id from lease l where l.id = any (p_job_ids) and l.run_id is not null) as l
    cross join lateral (select r.root_run_id from run r where r.run_id = l.run_id offset 0) as r);
begin
  if cardinality(v_roots) = 0 then
    return '{}'::bigint[];
  end if;
  return held_jobs(p_job_ids, v_roots);
end
$$;
comment on function fencepost_private.busy_jobs(bigint[]) is 'Locks the root runs of these leased jobs without waiting and returns the jobs whose run is held by somebody else.';

-- The same for jobs that hold no lease.
create function fencepost_private.busy_waiting_jobs(p_job_ids bigint[]) returns bigint[]
language plpgsql volatile
set search_path = fencepost_private, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
begin
  return held_jobs(p_job_ids, array(select distinct r.root_run_id from unnest(p_job_ids) as i(id) join job b on b.id = i.id join run r on r.run_id = b.run_id));
end
$$;
comment on function fencepost_private.busy_waiting_jobs(bigint[]) is 'Locks the root runs of these jobs without waiting and returns the jobs whose run is held by somebody else.';

-- Locks these root runs, but for those that somebody else holds: the jobs among these that are of them are returned. Its
-- callers have set the other switches.
create function fencepost_private.held_jobs(p_job_ids bigint[], p_root_ids bigint[]) returns bigint[]
language plpgsql volatile
set search_path = fencepost_private, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_got bigint[] := array(select r.run_id from run r where r.run_id = any (p_root_ids) order by r.run_id for no key update skip locked);
begin
  if cardinality(v_got) = cardinality(p_root_ids) then
    return '{}'::bigint[];
  end if;
  return array(
    select b.id from unnest(p_job_ids) as i(id) join job b on b.id = i.id join run r on r.run_id = b.run_id where not r.root_run_id = any (v_got));
end
$$;
comment on function fencepost_private.held_jobs(bigint[], bigint[]) is 'Locks these root runs without waiting and returns those of these jobs whose root somebody else holds.';
