-- What cannot live again, because its run or one around it was cancelled or has begun to undo what it did.

-- Those of these tasks that cannot; run_id says which run it is that forbids it. An undoing can in a run that undoes.
create function fencepost_private.late_tasks(p_task_ids bigint[])
returns table (task_id bigint, run_id bigint, state text)
language plpgsql volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
#variable_conflict use_column
begin
  return query
  with recursive around as (
    select t.task_id, t.kind = 'compensation' as is_undoing, r.run_id, r.parent_task_id, r.cancelled_at is not null as cancelled, r.compensating_at is not null as compensating
    from unnest(p_task_ids) as i(id)
    cross join lateral (select t.* from task t where t.task_id = i.id offset 0) as t
    cross join lateral (select r.* from run r where r.run_id = t.run_id offset 0) as r
    union
    select a.task_id, a.is_undoing, r.run_id, r.parent_task_id, r.cancelled_at is not null and not a.is_undoing, r.compensating_at is not null
    from around a
    cross join lateral (select t.run_id from task t where t.task_id = a.parent_task_id offset 0) as t
    cross join lateral (select r.* from run r where r.run_id = t.run_id offset 0) as r
  )
  select a.task_id, a.run_id, case when a.cancelled then 'cancelled' else 'being compensated' end
  from around a where a.cancelled or a.compensating and not a.is_undoing;
end
$$;
comment on function fencepost_private.late_tasks(bigint[]) is 'Those of these tasks that cannot live again, because their run or one around it is cancelled or being compensated.';

-- Raises JE004 when one of these tasks cannot live again.
create function fencepost_private.refuse_late(p_task_ids bigint[]) returns void
language plpgsql volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v record;
begin
  select l.* into v from late_tasks(p_task_ids) as l limit 1;
  if found then
    perform raise_error('JE004', format('run %s is %s: task %s cannot be replayed', v.run_id, v.state, v.task_id), format('received task %s, or its job', v.task_id),
      'Start a new run with fencepost.restart_run().');
  end if;
end
$$;
comment on function fencepost_private.refuse_late(bigint[]) is 'Raises JE004 for a task whose run, or a run around it, is cancelled or being compensated.';

-- The same by jobs: those that cannot be replayed.
create function fencepost_private.late_replays(p_job_ids bigint[])
returns table (job_id bigint)
language plpgsql volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
begin
  return query
  select distinct t.job_id
  from late_tasks(array(select b.task_id from job b where b.id = any (p_job_ids) and b.task_id is not null)) as l
  cross join lateral (select t.job_id from task t where t.task_id = l.task_id offset 0) as t;
end
$$;
comment on function fencepost_private.late_replays(bigint[]) is 'Those of these jobs that cannot be replayed, because their run or one around it is cancelled or being compensated.';

-- Those of these jobs that can be replayed, as far as their runs go, in id order.
create function fencepost_private.without_late_replays(p_job_ids bigint[])
returns bigint[]
language sql
volatile
set search_path = fencepost_private, pg_temp
as $$
  select array(select i from unnest(p_job_ids) as i except select l.job_id from late_replays(p_job_ids) as l order by 1)
$$;
comment on function fencepost_private.without_late_replays(bigint[]) is 'Those of these jobs that can be replayed, as far as their runs go.';
