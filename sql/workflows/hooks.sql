-- Where jobs meet runs. The engine of jobs calls these set-wise, in the transaction of the transition.

-- Locks the root runs of these jobs in id order, before any of the jobs is locked: the global order is run, task, job.
-- One lock serves a whole family of child runs, so parents and children cannot deadlock.
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

create function fencepost_private.lock_roots(p_run_ids bigint[]) returns void
language plpgsql volatile
set search_path = fencepost_private, pg_temp
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
  v_roots bigint[] := array(select distinct r.root_run_id from lease l join run r on r.run_id = l.run_id where l.id = any (p_job_ids));
  v_got   bigint[];
begin
  if cardinality(v_roots) = 0 then
    return '{}'::bigint[];
  end if;
  v_got := array(select r.run_id from run r where r.run_id = any (v_roots) order by r.run_id for no key update skip locked);
  if cardinality(v_got) = cardinality(v_roots) then
    return '{}'::bigint[];
  end if;
  return array(select l.id from lease l join run r on r.run_id = l.run_id where l.id = any (p_job_ids) and not r.root_run_id = any (v_got));
end
$$;
comment on function fencepost_private.busy_jobs(bigint[]) is 'Locks the root runs of these leased jobs without waiting and returns the jobs whose run is held by somebody else.';

-- Jobs of tasks that ended. A dead letter fails its task, so does nothing else; a discarded one had failed it before.
create function fencepost_private.jobs_ended(p_ends fencepost_private.task_end[], p_now timestamptz) returns void
language plpgsql volatile
set search_path = fencepost_private, pg_temp
as $$
begin
  if cardinality(p_ends) > 0 then
    perform advance(p_ends, null, null, p_now);
  end if;
end
$$;
comment on function fencepost_private.jobs_ended(fencepost_private.task_end[], timestamptz) is 'Called by every ending of jobs with the tasks that end by it.';

-- Jobs that came back from the dead: their tasks are queued again, their maps and runs live again.
-- Errors: JE004 when the run has begun to undo what it did.
create function fencepost_private.jobs_revived(p_job_ids bigint[], p_now timestamptz) returns void
language plpgsql volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_deltas run_delta[];
  v_late   record;
begin
  select t.task_id, t.run_id into v_late
  from unnest(p_job_ids) as i(id) join job b on b.id = i.id join task t on t.task_id = b.task_id join run r on r.run_id = t.run_id
  where t.status = 'failed' and t.kind <> 'compensation' and (r.compensating_at is not null or r.cancelled_at is not null)
  limit 1;
  if found then
    perform raise_error('JE004', format('run %s is cancelled or being compensated: task %s cannot be replayed', v_late.run_id, v_late.task_id), format('received the job of task %s', v_late.task_id),
      'Start a new run with fencepost.restart_run().');
  end if;

  with back as (
    update task t set status = 'queued', error = null, finished_at = null
    from job b
    where b.id = any (p_job_ids) and t.task_id = b.task_id and t.status in ('failed', 'cancelled')
    returning t.run_id, t.kind, t.parent_task_id, t.task_no, t.released
  ), maps as (
    update task m
    set items_open = m.items_open + n.n, items_failed = m.items_failed - n.n, status = 'waiting', error = null, finished_at = null
    from (select b.parent_task_id, count(*)::int as n from back b where b.kind = 'item' group by b.parent_task_id) as n,
         task before
    where m.task_id = n.parent_task_id and before.task_id = m.task_id
    returning m.run_id, before.status as was
  )
  select coalesce(array_agg(d.delta), '{}') into v_deltas
  from (
    select row(b.run_id, 0, count(*), 0, -count(*) filter (where b.kind not in ('item', 'compensation') and b.released), -count(*) filter (where b.kind not in ('item', 'compensation') and not b.released), 0,
               0, -count(*) filter (where b.kind = 'compensation'))::run_delta as delta
    from back b group by b.run_id
    union all
    select row(m.run_id, 0, 0, 1, 0, -1, 0, 0, 0)::run_delta from maps m where m.was = 'failed'
  ) as d;
  perform revive_parents(array(select distinct d.run_id from unnest(v_deltas) as d), p_now);
  if cardinality(v_deltas) > 0 then
    perform advance(null, null, v_deltas, p_now);
    perform park_paused(p_job_ids);
  end if;
end
$$;
comment on function fencepost_private.jobs_revived(bigint[], timestamptz) is 'Called by replay with the jobs that live again: their tasks, maps and runs live again too. Raises JE004.';

-- A child run that lives again brings its parent task back from failed to waiting, and so on outwards.
create function fencepost_private.revive_parents(p_run_ids bigint[], p_now timestamptz) returns void
language plpgsql volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_deltas run_delta[];
begin
  with back as (
    update task t set status = 'waiting', error = null, finished_at = null
    from run r
    where r.run_id = any (p_run_ids) and t.task_id = r.parent_task_id and t.status = 'failed'
    returning t.run_id, t.released
  )
  select coalesce(array_agg(row(b.run_id, 0, 0, 1, case when b.released then -1 else 0 end, case when b.released then 0 else -1 end, 0, 0, 0)::run_delta), '{}') into v_deltas from back b;
  if cardinality(v_deltas) > 0 then
    perform revive_parents(array(select distinct d.run_id from unnest(v_deltas) as d), p_now);
    perform advance(null, null, v_deltas, p_now);
  end if;
end
$$;
comment on function fencepost_private.revive_parents(bigint[], timestamptz) is 'Brings tasks whose child run lives again back to waiting.';

-- A job of a paused run that became ready or delayed waits, parked, until the run is resumed.
create function fencepost_private.park_paused(p_job_ids bigint[]) returns void
language plpgsql volatile
set search_path = fencepost_private, pg_temp
as $$
begin
  perform park_jobs(array(select b.id from job b join run r on r.run_id = b.run_id where b.id = any (p_job_ids) and r.paused_at is not null), 'run');
end
$$;
comment on function fencepost_private.park_paused(bigint[]) is 'Parks those of these jobs whose run is paused.';

-- Moves jobs from ready and delayed to parked. Returns how many.
create function fencepost_private.park_jobs(p_job_ids bigint[], p_for text) returns int
language plpgsql volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_count int;
begin
  if cardinality(p_job_ids) = 0 then
    return 0;
  end if;
  with from_ready as (
    delete from ready r where r.id = any (p_job_ids) returning r.id, r.lane_id, r.attempts, r.token
  ), from_delayed as (
    delete from delayed d where d.id = any (p_job_ids) returning d.id, d.lane_id, d.attempts, d.token
  ), moved as (
    select true as was_ready, r.* from from_ready r union all select false, d.* from from_delayed d
  ), put as (
    insert into parked (id, lane_id, attempts, token, parked_at, waits_for)
    select m.id, m.lane_id, m.attempts, m.token, fencepost_private.now(), p_for from moved m
  ), counted as (
    insert into depth_delta (type_id, xid, ready, delayed, parked)
    select l.type_id, xid(), -count(*) filter (where m.was_ready), -count(*) filter (where not m.was_ready), count(*)
    from moved m join lane l on l.lane_id = m.lane_id group by l.type_id
  )
  select count(*) into v_count from moved;
  return v_count;
end
$$;
comment on function fencepost_private.park_jobs(bigint[], text) is 'Moves jobs from ready and delayed to parked; returns how many.';

-- Moves parked jobs back to ready and wakes who sleeps for them. Returns how many.
create function fencepost_private.unpark_jobs(p_job_ids bigint[]) returns int
language plpgsql volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_types int[];
  v_count int;
begin
  if cardinality(p_job_ids) = 0 then
    return 0;
  end if;
  with moved as (
    delete from parked p where p.id = any (p_job_ids) returning p.*
  ), put as (
    insert into ready (id, xid, lane_id, attempts, token, ready_at)
    select m.id, xid(), m.lane_id, m.attempts, m.token, fencepost_private.now() from moved m order by m.id
  ), counted as (
    insert into depth_delta (type_id, xid, parked, ready)
    select l.type_id, xid(), -count(*), count(*) from moved m join lane l on l.lane_id = m.lane_id group by l.type_id
    returning type_id
  )
  select (select count(*) from moved), (select array_agg(c.type_id) from counted c) into v_count, v_types;
  perform wake(v_types);
  return v_count;
end
$$;
comment on function fencepost_private.unpark_jobs(bigint[]) is 'Moves parked jobs back to ready; returns how many.';
