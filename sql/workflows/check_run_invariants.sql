-- What must always be true of runs and is not: no row is good news. Reads every run from p_first on, with its tasks, in
-- one snapshot; at most twenty rows for each invariant.
create function fencepost_private.check_run_invariants(p_first bigint default 0)
returns table (invariant text, detail text)
language plpgsql
stable
set search_path = fencepost_private, pg_temp
set jit = off
as $$
begin
  return query select c.invariant, c.detail from check_run_numbers(p_first) as c;
  return query select c.invariant, c.detail from check_run_ends(p_first) as c;
  return query select c.invariant, c.detail from check_task_graph(p_first) as c;
  return query select c.invariant, c.detail from check_task_jobs(p_first) as c;
  return query select c.invariant, c.detail from check_task_waits(p_first) as c;
  return query select c.invariant, c.detail from check_maps(p_first) as c;
end
$$;
comment on function fencepost_private.check_run_invariants(bigint) is 'What must always be true of runs from this one on and is not: no row means healthy.';

-- The numbers and the status that a run carries are those that its tasks say.
create function fencepost_private.check_run_numbers(p_first bigint)
returns table (invariant text, detail text)
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
begin
  return query
  with counted as materialized (
    select r.run_id,
           count(t.task_id) filter (where t.item is null and t.status = 'pending')::int as pending,
           count(t.task_id) filter (where t.status = 'queued')::int as queued,
           count(t.task_id) filter (where t.status = 'waiting')::int as waiting,
           count(t.task_id) filter (where t.item is null and (t.status in ('completed', 'skipped') or t.status = 'failed' and t.released))::int as ended_well,
           count(t.task_id) filter (where t.item is null and t.status = 'failed' and not t.released)::int as failed,
           count(t.task_id) filter (where t.item is null and t.status = 'cancelled')::int as cancelled,
           count(t.task_id) filter (where t.kind = 'compensation' and t.status <> 'completed')::int as undoing,
           count(t.task_id) filter (where t.kind = 'compensation' and t.status in ('failed', 'cancelled'))::int as undo_failed
    from run r left join task t on t.run_id = r.run_id
    where r.run_id >= p_first
    group by r.run_id
  )
  select 'the numbers of a run are those of its tasks', format('run %s says %s, its tasks say %s', r.run_id,
           row(r.pending, r.queued, r.waiting, r.ended_well, r.failed, r.cancelled, r.undoing, r.undo_failed),
           row(c.pending, c.queued, c.waiting, c.ended_well, c.failed, c.cancelled, c.undoing, c.undo_failed))
  from counted c join run r on r.run_id = c.run_id
  where (r.pending, r.queued, r.waiting, r.ended_well, r.failed, r.cancelled, r.undoing, r.undo_failed)
     <> (c.pending, c.queued, c.waiting, c.ended_well, c.failed, c.cancelled, c.undoing, c.undo_failed)
  order by r.run_id limit 20;

  return query
  select 'the status of a run follows its numbers', format('run %s is %s and should be %s', s.run_id, s.status, s.due)
  from (
    select r.run_id, r.status,
           run_status_of(r.cancelled_at, r.compensating_at, r.paused_at, r.pending, r.queued, r.waiting, r.failed, r.cancelled, r.undoing, r.undo_failed) as due
    from run r where r.run_id >= p_first
  ) as s
  where s.status <> s.due order by s.run_id limit 20;

  return query
  select 'a run has the tasks of its version', format('run %s has %s of %s', r.run_id, n.n, v.tasks)
  from run r
  join workflow_version v on v.version_id = r.version_id
  cross join lateral (
    select count(*) as n from task t join workflow_task d on d.version_id = r.version_id and d.task_no = t.task_no and d.kind = t.kind
    where t.run_id = r.run_id and t.item is null
  ) as n
  where r.run_id >= p_first and n.n <> v.tasks order by r.run_id limit 20;
end
$$;
comment on function fencepost_private.check_run_numbers(bigint) is 'check_run_invariants, of numbers and status.';

-- A run that has ended is at rest, and so are the runs inside of it. What is removed goes whole.
create function fencepost_private.check_run_ends(p_first bigint)
returns table (invariant text, detail text)
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
begin
  return query
  select 'a run has ended when nothing of it can move', format('run %s is %s with %s queued and %s waiting tasks, and finished_at is %s', r.run_id, r.status, r.queued, r.waiting, coalesce(r.finished_at::text, 'null'))
  from run r
  where r.run_id >= p_first
    and (r.finished_at is not null) <> (r.status in ('completed', 'failed', 'cancelled', 'compensated') and r.queued + r.waiting = 0)
  order by r.run_id limit 20;

  return query
  select 'an ended run has no live task', format('task %s of run %s, which is %s, is %s', t.task_id, r.run_id, r.status, t.status)
  from run r join task t on t.run_id = r.run_id
  where r.run_id >= p_first
    and (r.finished_at is not null and t.status in ('queued', 'waiting') or r.status in ('completed', 'cancelled', 'compensated') and t.status in ('pending', 'waiting'))
  order by t.task_id limit 20;

  return query
  select 'a run inside another belongs to its family', format('run %s of task %s has root %s and depth %s; run %s around it has %s and %s', c.run_id, t.task_id, c.root_run_id, c.depth, r.run_id, r.root_run_id, r.depth)
  from run c left join task t on t.task_id = c.parent_task_id left join run r on r.run_id = t.run_id
  where c.run_id >= p_first
    and case when c.parent_task_id is null then c.root_run_id <> c.run_id or c.depth <> 0
             else t.child_run_id is distinct from c.run_id or c.root_run_id is distinct from r.root_run_id or c.depth is distinct from r.depth + 1 end
  order by c.run_id limit 20;

  return query
  select 'what belongs to a run has one', format('%s %s names run %s', o.kind, o.id, o.run_id)
  from (
    select 'task' as kind, t.task_id as id, t.run_id from task t
    union all select 'approval', a.approval_id, a.run_id from approval a
    union all select 'signal', s.signal_id, s.run_id from signal s
    union all select 'run', c.run_id, c.root_run_id from run c
  ) as o
  where o.run_id >= p_first and not exists (select from run r where r.run_id = o.run_id)
  order by o.run_id limit 20;

  return query
  select 'nothing lives in a cancelled run but what undoes itself', format('run %s inside run %s is %s', c.run_id, r.run_id, c.status)
  from run r join task t on t.run_id = r.run_id join run c on c.run_id = t.child_run_id join workflow_version v on v.version_id = c.version_id
  where r.run_id >= p_first and r.status = 'cancelled' and c.finished_at is null and c.status <> 'cancelled' and not v.compensates
  order by c.run_id limit 20;
end
$$;
comment on function fencepost_private.check_run_ends(bigint) is 'check_run_invariants, of runs that have ended.';
