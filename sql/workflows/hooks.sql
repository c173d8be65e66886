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
  v_held  bigint[];
begin
  if cardinality(v_roots) = 0 then
    return '{}'::bigint[];
  end if;
  v_held := held_roots(v_roots);
  if cardinality(v_held) = 0 then
    return '{}'::bigint[];
  end if;
  return array(
    select l.id from lease l cross join lateral (select r.root_run_id from run r where r.run_id = l.run_id offset 0) as r
    where l.id = any (p_job_ids) and r.root_run_id = any (v_held));
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
declare
  v_held bigint[] := held_roots(array(select distinct r.root_run_id from unnest(p_job_ids) as i(id) join job b on b.id = i.id join run r on r.run_id = b.run_id));
begin
  if cardinality(v_held) = 0 then
    return '{}'::bigint[];
  end if;
  return array(select b.id from unnest(p_job_ids) as i(id) join job b on b.id = i.id join run r on r.run_id = b.run_id where r.root_run_id = any (v_held));
end
$$;
comment on function fencepost_private.busy_waiting_jobs(bigint[]) is 'Locks the root runs of these jobs without waiting and returns the jobs whose run is held by somebody else.';

-- Locks these root runs, but for those that somebody else holds: they are returned.
create function fencepost_private.held_roots(p_root_ids bigint[]) returns bigint[]
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
  return array(select i from unnest(p_root_ids) as i where not i = any (v_got));
end
$$;
comment on function fencepost_private.held_roots(bigint[]) is 'Locks these root runs without waiting and returns those that somebody else holds.';

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

-- Jobs that came back from the dead: their tasks are queued again, their maps and runs live again. Items wait, parked,
-- for room in their map.
-- Errors: JE004 when the run, or one around it, was cancelled or has begun to undo what it did.
create function fencepost_private.jobs_revived(p_job_ids bigint[], p_now timestamptz) returns void
language plpgsql volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
declare
  v_deltas run_delta[];
  v_maps   bigint[];
  v_more   record;
begin
  perform refuse_late_replay(p_job_ids);
  with back as (
    update task t set status = 'queued', error = null, finished_at = null
    from job b
    where b.id = any (p_job_ids) and t.task_id = b.task_id and t.status = 'failed'
    returning t.run_id, t.kind, t.parent_task_id, t.task_no, t.released
  ), maps as (
    update task m
    set items_open = m.items_open + n.n, items_failed = m.items_failed - n.n, status = 'waiting', error = null, finished_at = null
    from (select b.parent_task_id, count(*)::int as n from back b where b.kind = 'item' group by b.parent_task_id) as n,
         task before
    where m.task_id = n.parent_task_id and before.task_id = m.task_id
    returning m.task_id, m.run_id, m.released, before.status as was
  )
  select coalesce(array_agg(d.delta), '{}'), array(select m.task_id from maps m order by m.task_id) into v_deltas, v_maps
  from (
    select row(b.run_id, 0, count(*), 0, -count(*) filter (where b.kind not in ('item', 'compensation') and b.released), -count(*) filter (where b.kind not in ('item', 'compensation') and not b.released), 0,
               0, -count(*) filter (where b.kind = 'compensation'))::run_delta as delta
    from back b group by b.run_id
    union all
    select row(m.run_id, 0, 0, 1, case when m.released then -1 else 0 end, case when m.released then 0 else -1 end, 0, 0, 0)::run_delta from maps m where m.was = 'failed'
  ) as d;
  if cardinality(v_deltas) = 0 then
    return;
  end if;
  perform revive_parents(array(select distinct d.run_id from unnest(v_deltas) as d), p_now);
  perform advance(null, null, v_deltas, p_now);
  perform park_items(p_job_ids, v_maps), park_paused(p_job_ids);
  select i.ends, i.deltas into v_more from start_items(v_maps, p_now) as i;
  perform advance(v_more.ends, null, v_more.deltas, p_now);
end
$$;
comment on function fencepost_private.jobs_revived(bigint[], timestamptz) is 'Called by replay with the jobs that live again: their tasks, maps and runs live again too. Raises JE004.';

-- Raises JE004 when one of these jobs belongs to a run that cannot live again: it, or one around it, was cancelled or is
-- undoing what it did. An undoing itself can be replayed also then.
create function fencepost_private.refuse_late_replay(p_job_ids bigint[]) returns void
language plpgsql volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
declare
  v record;
begin
  with recursive around as (
    select t.task_id, t.kind = 'compensation' as is_undoing, r.run_id, r.parent_task_id, r.cancelled_at is not null as cancelled, r.compensating_at is not null as compensating
    from unnest(p_job_ids) as i(id) join job b on b.id = i.id join task t on t.task_id = b.task_id join run r on r.run_id = t.run_id
    union
    select a.task_id, a.is_undoing, r.run_id, r.parent_task_id, r.cancelled_at is not null and not a.is_undoing, r.compensating_at is not null
    from around a join task t on t.task_id = a.parent_task_id join run r on r.run_id = t.run_id
  )
  select a.task_id, a.run_id, case when a.cancelled then 'cancelled' else 'being compensated' end as state into v
  from around a where a.cancelled or a.compensating and not a.is_undoing limit 1;
  if found then
    perform raise_error('JE004', format('run %s is %s: task %s cannot be replayed', v.run_id, v.state, v.task_id), format('received the job of task %s', v.task_id),
      'Start a new run with fencepost.restart_run().');
  end if;
end
$$;
comment on function fencepost_private.refuse_late_replay(bigint[]) is 'Raises JE004 for a job whose run, or a run around it, is cancelled or being compensated.';

-- A child run that lives again brings its parent task back from failed to waiting, and so on outwards.
create function fencepost_private.revive_parents(p_run_ids bigint[], p_now timestamptz) returns void
language plpgsql volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
declare
  v_deltas run_delta[];
begin
  with back as (
    update task t set status = 'waiting', error = null, finished_at = null
    from run r
    where r.run_id = any (p_run_ids) and t.task_id = r.parent_task_id and t.status = 'failed'
      and not exists (select from run o where o.run_id = t.run_id and (o.cancelled_at is not null or o.compensating_at is not null))
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

-- Parks these jobs where they are items of maps that limit how many run at once.
create function fencepost_private.park_items(p_job_ids bigint[], p_map_ids bigint[]) returns void
language plpgsql volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
declare
  v record;
begin
  for v in
    select m.task_id, array_agg(t.job_id) as jobs
    from unnest(p_map_ids) as i(task_id)
    join task m on m.task_id = i.task_id
    join run r on r.run_id = m.run_id
    join workflow_task d on d.version_id = r.version_id and d.task_no = m.task_no and d.max_parallel is not null
    join task t on t.parent_task_id = m.task_id and t.job_id = any (p_job_ids)
    group by m.task_id order by m.task_id
  loop
    perform park_jobs(v.jobs, map_place(v.task_id));
  end loop;
end
$$;
comment on function fencepost_private.park_items(bigint[], bigint[]) is 'Parks revived items of maps with max_parallel, until there is room.';

-- A job of a paused run that became ready or delayed waits, parked, until the run is resumed.
create function fencepost_private.park_paused(p_job_ids bigint[]) returns void
language plpgsql volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
begin
  perform park_jobs(array(select b.id from job b join run r on r.run_id = b.run_id where b.id = any (p_job_ids) and r.paused_at is not null), 'run');
end
$$;
comment on function fencepost_private.park_paused(bigint[]) is 'Parks those of these jobs whose run is paused.';

-- Moves jobs from ready and delayed to parked. One that runs, or is claimed while we look, stays. Returns how many.
create function fencepost_private.park_jobs(p_job_ids bigint[], p_for text) returns int
language plpgsql volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
declare
  v_moved int;
  v_count int := 0;
begin
  -- one may move between the two places while we look: look again, in a new statement
  for v_try in 1..20 loop
    exit when not exists (select from ready r where r.id = any (p_job_ids)) and not exists (select from delayed d where d.id = any (p_job_ids));
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
    select count(*) into v_moved from moved;
    v_count := v_count + v_moved;
  end loop;
  return v_count;
end
$$;
comment on function fencepost_private.park_jobs(bigint[], text) is 'Moves jobs from ready and delayed to parked; returns how many.';

-- Moves parked jobs back to ready and wakes who sleeps for them. Returns how many.
create function fencepost_private.unpark_jobs(p_job_ids bigint[]) returns int
language plpgsql volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
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
