-- What check_run_invariants says of tasks: what they wait for, their jobs, and maps.

-- Pending tasks wait for exactly their parents that have not ended well, and for their gate.
create function fencepost_private.check_task_graph(p_first bigint)
returns table (invariant text, detail text)
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
begin
  return query
  select 'a pending task waits for its parents', format('task %s of run %s says unmet %s, skipped %s; its parents say %s, %s', t.task_id, t.run_id, t.unmet, t.skipped_parents, p.unmet, p.skipped)
  from run r
  join task t on t.run_id = r.run_id and t.item is null and t.status = 'pending'
  cross join lateral (
    select (count(*) filter (where not o.released))::int + case when t.gate_id is null then 0 else 1 end as unmet, (count(*) filter (where o.status = 'skipped'))::int as skipped
    from (select e.parent_no from workflow_edge e where e.version_id = r.version_id and e.child_no = t.task_no offset 0) as e
    cross join lateral (select o.released, o.status from task o where o.run_id = t.run_id and o.task_no = e.parent_no and o.item is null offset 0) as o
  ) as p
  where r.run_id >= p_first and (t.unmet, t.skipped_parents) <> (p.unmet, p.skipped)
  order by t.task_id limit 20;

  return query
  select 'a task that can start has started', format('task %s of run %s, which is %s, waits for nothing', t.task_id, t.run_id, r.status)
  from run r join task t on t.run_id = r.run_id and t.item is null and t.status = 'pending' and t.unmet = 0
  where r.run_id >= p_first and r.paused_at is null and r.cancelled_at is null and r.compensating_at is null
  order by t.task_id limit 20;

  return query
  select 'a task that ended well released its children', format('task %s is %s', t.task_id, t.status)
  from task t
  where t.run_id >= p_first and t.item is null and t.status in ('completed', 'skipped') and not t.released
  order by t.task_id limit 20;

  return query
  select 'a task starts after its parents', format('task %s is %s while its parent %s is %s', t.task_id, t.status, o.task_id, o.status)
  from run r
  join task t on t.run_id = r.run_id and t.item is null and t.status in ('queued', 'waiting', 'completed')
  cross join lateral (select e.parent_no from workflow_edge e where e.version_id = r.version_id and e.child_no = t.task_no offset 0) as e
  cross join lateral (select o.* from task o where o.run_id = t.run_id and o.task_no = e.parent_no and o.item is null offset 0) as o
  where r.run_id >= p_first and r.migrated_at is null and not o.released
  order by t.task_id limit 20;
end
$$;
comment on function fencepost_private.check_task_graph(bigint) is 'check_run_invariants, of what tasks wait for.';

-- A queued task has a living job, and a living job of a run has a queued task.
create function fencepost_private.check_task_jobs(p_first bigint)
returns table (invariant text, detail text)
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
begin
  return query
  select 'a queued task has a living job', format('task %s of run %s has job %s, which is in %s', t.task_id, t.run_id, coalesce(t.job_id::text, 'null'), coalesce(p.place, 'no place'))
  from task t left join held_places() p on p.id = t.job_id
  where t.run_id >= p_first and t.status = 'queued' and coalesce(p.place, 'dead_letter') = 'dead_letter'
  order by t.task_id limit 20;

  return query
  select 'a living job of a run has a queued task', format('job %s in %s names task %s, which is %s with job %s', b.id, p.place, b.task_id, coalesce(t.status::text, 'unknown'), coalesce(t.job_id::text, 'null'))
  from held_places() p join job b on b.id = p.id left join task t on t.task_id = b.task_id
  where b.run_id >= p_first and (t.job_id is distinct from b.id or t.run_id is distinct from b.run_id
    or t.status is distinct from case when p.place = 'dead_letter' then 'failed' else 'queued' end::task_status)
  order by b.id limit 20;

  return query
  select 'nothing of a paused run can be claimed', format('job %s of run %s is in %s', p.id, r.run_id, p.place)
  from run r join task t on t.run_id = r.run_id and t.status = 'queued' join held_places() p on p.id = t.job_id
  where r.run_id >= p_first and r.paused_at is not null and p.place in ('ready', 'delayed')
  order by p.id limit 20;

  return query
  select 'a cancelled run has no job that was not told', format('job %s of run %s is in %s', t.job_id, r.run_id, p.place)
  from run r join task t on t.run_id = r.run_id and t.status = 'queued' join held_places() p on p.id = t.job_id
  where r.run_id >= p_first and r.cancelled_at is not null and not exists (select from lease l where l.id = t.job_id and l.cancel_requested_at is not null)
  order by p.id limit 20;

  return query
  select 'a parked job of a run has a reason', format('job %s of run %s waits for %s', k.id, r.run_id, k.waits_for)
  from run r join task t on t.run_id = r.run_id and t.status = 'queued' join parked k on k.id = t.job_id
  where r.run_id >= p_first and r.paused_at is null and t.gate_id is null and k.waits_for is distinct from map_place(t.parent_task_id)
  order by k.id limit 20;

  return query
  select 'a task behind a gate is held', format('job %s of task %s is in %s', t.job_id, t.task_id, p.place)
  from task t join held_places() p on p.id = t.job_id
  where t.run_id >= p_first and t.status = 'queued' and t.gate_id is not null and p.place <> 'parked'
  order by t.task_id limit 20;
end
$$;
comment on function fencepost_private.check_task_jobs(bigint) is 'check_run_invariants, of tasks and their jobs.';

-- What waits, waits for something that can still come.
create function fencepost_private.check_task_waits(p_first bigint)
returns table (invariant text, detail text)
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
begin
  return query
  select 'a waiting task waits for something', format('task %s is a %s', t.task_id, t.kind)
  from task t
  where t.run_id >= p_first and t.status = 'waiting'
    and case t.kind
          when 'approval' then 1 <> (select count(*) from approval a where a.task_id = t.task_id and a.status = 'pending' and not a.is_gate)
          when 'timer' then t.due_at is null
          when 'signal' then exists (select from run r join workflow_task d on d.version_id = r.version_id and d.task_no = t.task_no
                                     join signal s on s.run_id = t.run_id and s.name = d.signal and s.task_id is null where r.run_id = t.run_id)
          when 'map' then t.items_open = 0
          when 'workflow' then not exists (select from run c where c.run_id = t.child_run_id and (c.queued > 0 or c.status not in ('completed', 'failed', 'cancelled', 'compensated')))
          else true end
  order by t.task_id limit 20;

  return query
  select 'what can fall due waits', format('task %s is %s and due at %s', t.task_id, t.status, t.due_at)
  from task t where t.run_id >= p_first and t.due_at is not null and t.status <> 'waiting'
  order by t.task_id limit 20;

  return query
  select 'an open approval belongs to a live task', format('approval %s of task %s, which is %s', a.approval_id, a.task_id, coalesce(t.status::text, 'unknown'))
  from approval a left join task t on t.task_id = a.task_id
  where a.run_id >= p_first and a.status = 'pending'
    and (t.run_id is distinct from a.run_id
         or case when a.is_gate then t.gate_id is distinct from a.approval_id or t.status not in ('pending', 'queued') else t.status <> 'waiting' or t.kind <> 'approval' end)
  order by a.approval_id limit 20;

  return query
  select 'a gate is an open approval', format('task %s names approval %s', t.task_id, t.gate_id)
  from task t where t.run_id >= p_first and t.gate_id is not null
    and not exists (select from approval a where a.approval_id = t.gate_id and a.status = 'pending' and a.is_gate and a.task_id = t.task_id)
  order by t.task_id limit 20;
end
$$;
comment on function fencepost_private.check_task_waits(bigint) is 'check_run_invariants, of what waits.';

-- The counters of maps that are alive, and their limits.
create function fencepost_private.check_maps(p_first bigint)
returns table (invariant text, detail text)
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
begin
  return query
  with counted as materialized (
    select m.task_id, r.paused_at, m.items, m.items_started, m.items_open, m.items_failed, d.max_parallel,
           count(t.task_id)::int as all_items,
           count(t.task_id) filter (where t.status <> 'pending')::int as started,
           count(t.task_id) filter (where t.status in ('pending', 'queued'))::int as open,
           count(t.task_id) filter (where t.status in ('failed', 'cancelled'))::int as failed,
           count(t.task_id) filter (where t.status = 'queued' and not exists (select from parked p where p.id = t.job_id and p.waits_for = map_place(m.task_id)))::int as running
    from task m
    join run r on r.run_id = m.run_id
    join workflow_task d on d.version_id = r.version_id and d.task_no = m.task_no
    left join task t on t.parent_task_id = m.task_id
    where m.run_id >= p_first and m.kind = 'map' and m.status = 'waiting'
    group by m.task_id, r.run_id, d.version_id, d.task_no
  ), broken as (
    select c.task_id, 'a map counts its items' as invariant, format('map %s says %s; its items say %s', c.task_id, row(c.items, c.items_started, c.items_open, c.items_failed), row(c.all_items, c.started, c.open, c.failed)) as detail
    from counted c
    where (c.items, c.items_started, c.items_open, c.items_failed) is distinct from (c.all_items, c.started, c.open, c.failed)
    union all
    select c.task_id, 'a map keeps to max_parallel', format('map %s runs %s of at most %s', c.task_id, c.running, c.max_parallel)
    from counted c where c.running > c.max_parallel
    union all
    select c.task_id, 'a map uses its room', format('map %s runs %s of at most %s; %s are open', c.task_id, c.running, coalesce(c.max_parallel, c.items), c.open)
    from counted c where c.paused_at is null and c.running < least(c.open, coalesce(c.max_parallel, c.items))
  )
  select b.invariant, b.detail from broken b order by b.task_id limit 20;

  return query
  select 'what ended leaves no item behind', format('item %s of map %s, which is %s, is pending', t.task_id, m.task_id, m.status)
  from task t join task m on m.task_id = t.parent_task_id
  where t.run_id >= p_first and t.kind = 'item' and t.status = 'pending' and m.status <> 'waiting'
  order by t.task_id limit 20;
end
$$;
comment on function fencepost_private.check_maps(bigint) is 'check_run_invariants, of maps.';
