-- Tries a failed task again, and its run goes on when it ends well: its dead letter is replayed; a task that failed without
-- one begins anew (an approval is asked for again, a wait waits again, a payload is built again). A task whose child run
-- failed tries again what failed in there; a map does its failed items.
-- Locks: the root run. Errors: JE002; JE004 when it has not failed, was given up, or the run was cancelled or compensated.
create function fencepost.replay_task(task_id bigint)
returns void
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_task task;
begin
  perform lock_roots(array(select t.run_id from task t where t.task_id = replay_task.task_id));
  select t.* into v_task from task t where t.task_id = replay_task.task_id;
  if not found then
    perform raise_task_not_found(replay_task.task_id);
  end if;
  if retry_tasks(array[v_task.task_id], fencepost_private.now()) = 0 then
    if v_task.status = 'failed' then
      perform refuse_late(array[v_task.task_id]);
    end if;
    perform raise_error('JE004', format('task %s is %s and has nothing to try again', v_task.task_id, v_task.status), format('received task_id = %s', v_task.task_id),
      case when v_task.status = 'failed' then 'Its dead letter was discarded, or what failed in its child run cannot be tried again: restart the run from it with fencepost.restart_run().'
           else 'Only a failed task can be tried again.' end);
  end if;
end
$$;
comment on function fencepost.replay_task(bigint) is 'Tries a failed task again; its run goes on when it ends well. Raises JE002, JE004.';

-- Tries again what failed behind these tasks. Returns how many tasks that are.
create function fencepost_private.retry_tasks(p_task_ids bigint[], p_now timestamptz)
returns int
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_jobs bigint[];
  v_anew bigint[];
begin
  select coalesce(array_agg(f.job_id order by f.job_id) filter (where f.job_id is not null), '{}'), coalesce(array_agg(f.task_id order by f.task_id) filter (where f.job_id is null), '{}')
    into v_jobs, v_anew
  from retryable(p_task_ids) as f;
  if cardinality(v_jobs) > 0 then
    perform replay_jobs(v_jobs);
  end if;
  if cardinality(v_anew) > 0 then
    perform start_anew(v_anew, p_now);
  end if;
  return cardinality(v_jobs) + cardinality(v_anew);
end
$$;
comment on function fencepost_private.retry_tasks(bigint[], timestamptz) is 'Tries again what failed behind these tasks; returns how many tasks that are.';

-- What failed behind these tasks and can be tried again: they themselves, items of maps, tasks of child runs. With the dead
-- letter of each, or null where it begins anew. Not what was given up, nor decisions and waits inside of child runs that
-- these went on without.
create function fencepost_private.retryable(p_task_ids bigint[])
returns table (task_id bigint, job_id bigint)
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_failed bigint[];
begin
  v_failed := array(
    with recursive failed as (
      select t.task_id from task t where t.task_id = any (p_task_ids) and (t.status = 'failed' or t.kind = 'compensation' and t.status = 'cancelled')
      union
      select i.task_id
      from failed f
      cross join lateral (select t.child_run_id from task t where t.task_id = f.task_id offset 0) as t
      cross join lateral (
        select i.task_id from task i where i.parent_task_id = f.task_id and i.kind = 'item' and i.status = 'failed'
        union all
        select i.task_id from failed_tasks(t.child_run_id) as i
      ) as i
    )
    select f.task_id from failed f);
  return query
  select f.task_id, z.id
  from unnest(v_failed) as i(id)
  cross join lateral (select t.* from task t where t.task_id = i.id offset 0) as f
  left join lateral (select z.id from dead_letter z where z.id = f.job_id offset 0) as z on true
  where (z.id is not null
         or case f.kind when 'map' then f.items is null
                        when 'workflow' then f.child_run_id is null
                        when 'job' then f.job_id is null or failing_gate(f.task_id, f.finished_at) is not null
                        when 'compensation' then f.job_id is null or f.status = 'cancelled'
                        when 'item' then f.job_id is null
                        else true end)
    and f.task_id not in (select l.task_id from late_tasks(v_failed) as l);
end
$$;
comment on function fencepost_private.retryable(bigint[]) is 'What failed behind these tasks and can be tried again, with its dead letter if it has one.';

-- The failed tasks of a run that a retry of the run means: not decisions and waits that the run went on without.
create function fencepost_private.failed_tasks(p_run_id bigint)
returns table (task_id bigint)
language sql
stable
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
  select t.task_id from task t
  where t.run_id = p_run_id
    and (t.status = 'failed' and not (t.released and t.kind in ('approval', 'signal')) or t.kind = 'compensation' and t.status = 'cancelled')
$$;
comment on function fencepost_private.failed_tasks(bigint) is 'The failed tasks of a run that a retry of it means.';
