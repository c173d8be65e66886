-- What lives again: failed tasks, the maps and the runs around them. A task whose job is dead-lettered goes on with that
-- job; one that never had a job, or waits for something, begins anew.

-- Jobs that came back from the dead: their tasks are queued again. Items wait, parked, for room in their map.
-- Errors: JE004 when the run, or one around it, was cancelled or has begun to undo what it did.
create function fencepost_private.jobs_revived(p_job_ids bigint[], p_now timestamptz) returns void
language plpgsql volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
declare
  v_tasks bigint[] := array(select b.task_id from job b where b.id = any (p_job_ids) and b.task_id is not null);
  v_maps  bigint[];
begin
  if cardinality(v_tasks) > 0 then
    perform refuse_late(v_tasks);
    v_maps := tasks_revived(v_tasks, 'queued', p_now);
    perform items_revived(p_job_ids, v_maps, p_now);
  end if;
end
$$;
comment on function fencepost_private.jobs_revived(bigint[], timestamptz) is 'Called by replay with the jobs that live again: their tasks, maps and runs live again too. Raises JE004.';

-- Begins failed tasks anew: conditions, payloads and times are read again, approvals asked for again, and so are gates that
-- had failed their task. An item goes back to its map with the payload that it had; an undoing is next again,
-- and stays one that had begun.
create function fencepost_private.start_anew(p_task_ids bigint[], p_now timestamptz) returns void
language plpgsql volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
declare
  v_gates bigint[] := array(select failing_gate(t.task_id, t.finished_at) from task t where t.task_id = any (p_task_ids));
  v_maps  bigint[];
  v_jobs  bigint[];
  v_more  record;
begin
  update task t
  set job_id = null, output = null, ready_at = case when t.kind = 'compensation' then t.ready_at end, unmet = p.unmet, skipped_parents = p.skipped
  from task old
  join run r on r.run_id = old.run_id
  cross join lateral (
    select (count(*) filter (where not o.released))::int as unmet, (count(*) filter (where o.status = 'skipped'))::int as skipped
    from workflow_edge e join task o on o.run_id = r.run_id and o.task_no = e.parent_no and o.item is null
    where e.version_id = r.version_id and e.child_no = old.task_no and old.item is null
  ) as p
  where old.task_id = any (p_task_ids) and t.task_id = any (array[old.task_id]);
  v_maps := tasks_revived(p_task_ids, 'pending', p_now);
  perform fencepost.request_approval(a.task_id, a.reason, a.expires_at - a.requested_at) from approval a where a.approval_id = any (v_gates) order by a.task_id;
  perform advance(null, p_task_ids, null, p_now);

  select q.ends, q.deltas into v_more
  from queue_tasks(array(
    select row(t.task_id, t.run_id, t.task_no, 'item', r.tenant, d.type, coalesce(d.priority, r.priority, 5), d.max_attempts, d.timeout, t.input,
               false, null, null, null, null, null, null, null, null, null)::due_task
    from task t
    join run r on r.run_id = t.run_id
    join workflow_task d on d.version_id = r.version_id and d.task_no = t.task_no
    where t.task_id = any (p_task_ids) and t.kind = 'item'
    order by t.task_id), p_now) as q;
  v_jobs := array(select t.job_id from task t where t.task_id = any (p_task_ids) and t.kind = 'item' and t.status = 'queued');
  perform advance(v_more.ends, null, v_more.deltas, p_now);
  perform items_revived(v_jobs, v_maps, p_now);

  select u.ends, u.deltas into v_more
  from undo_runs(array(select distinct t.run_id from task t where t.task_id = any (p_task_ids) and t.kind = 'compensation'), p_now) as u;
  perform advance(v_more.ends, null, v_more.deltas, p_now);
end
$$;
comment on function fencepost_private.start_anew(bigint[], timestamptz) is 'Begins failed tasks anew; their maps and runs live again too.';

-- The gate whose rejection or expiry failed a task; null when it failed otherwise.
create function fencepost_private.failing_gate(p_task_id bigint, p_failed_at timestamptz)
returns bigint
language sql
stable
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
  select a.approval_id from approval a
  where a.task_id = p_task_id and a.is_gate and a.status in ('rejected', 'expired') and a.decided_at = p_failed_at
$$;
comment on function fencepost_private.failing_gate(bigint, timestamptz) is 'The gate that failed a task, if one did.';

-- Tasks that failed are queued or pending again; their maps, runs and the runs around those live again. Returns the maps.
create function fencepost_private.tasks_revived(p_task_ids bigint[], p_as fencepost_private.task_status, p_now timestamptz)
returns bigint[]
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
declare
  v_deltas run_delta[];
  v_maps   bigint[];
begin
  with back as (
    update task t set status = p_as, error = null, finished_at = null
    where t.task_id = any (p_task_ids) and (t.status = 'failed' or t.kind = 'compensation' and t.status = 'cancelled')
    returning t.run_id, t.kind, t.parent_task_id, t.released, t.kind not in ('item', 'compensation') as counts
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
    select row(b.run_id, count(*) filter (where b.counts and p_as = 'pending'), count(*) filter (where p_as = 'queued'), 0,
               -count(*) filter (where b.counts and b.released), -count(*) filter (where b.counts and not b.released), 0,
               0, -count(*) filter (where b.kind = 'compensation'))::run_delta as delta
    from back b group by b.run_id
    union all
    select row(m.run_id, 0, 0, 1, case when m.released then -1 else 0 end, case when m.released then 0 else -1 end, 0, 0, 0)::run_delta from maps m where m.was = 'failed'
  ) as d;
  if cardinality(v_deltas) > 0 then
    perform revive_parents(array(select distinct d.run_id from unnest(v_deltas) as d), p_now);
    perform advance(null, null, v_deltas, p_now);
  end if;
  return v_maps;
end
$$;
comment on function fencepost_private.tasks_revived(bigint[], fencepost_private.task_status, timestamptz) is 'Brings failed tasks, and the runs around them, back to life; returns the maps of items among them.';

-- Of these jobs, which are ready, items wait for room in their map, and all of them while their run is paused.
create function fencepost_private.items_revived(p_job_ids bigint[], p_map_ids bigint[], p_now timestamptz) returns void
language plpgsql volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_more record;
begin
  perform park_items(p_job_ids, p_map_ids), park_paused(p_job_ids);
  select i.ends, i.deltas into v_more from start_items(p_map_ids, p_now) as i;
  perform advance(v_more.ends, null, v_more.deltas, p_now);
end
$$;
comment on function fencepost_private.items_revived(bigint[], bigint[], timestamptz) is 'Parks jobs that live again where their map is full or their run paused.';

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
