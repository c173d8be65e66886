-- Tries a failed task again: its dead letter is replayed, and its run goes on when it completes. A task whose child run
-- failed replays what failed in there; a map replays its failed items.
-- Locks: the root run. Errors: JE002; JE004 when it has not failed, or the run was cancelled or compensated.
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
  if replay_tasks(array[v_task.task_id]) = 0 then
    perform raise_error('JE004', format('task %s is %s and has nothing to replay', v_task.task_id, v_task.status), format('received task_id = %s', v_task.task_id),
      'Only a failed task whose job is dead-lettered can be replayed; an approval, timer or signal cannot: restart the run from it.');
  end if;
end
$$;
comment on function fencepost.replay_task(bigint) is 'Tries a failed task again; its run goes on when it completes. Raises JE002, JE004.';

-- Replays the dead letters of these tasks, of the items of maps among them, and of what failed in their child runs.
create function fencepost_private.replay_tasks(p_task_ids bigint[])
returns int
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
begin
  return replay_jobs(array(
    with recursive failed as (
      select t.task_id, t.job_id, t.child_run_id from task t where t.task_id = any (p_task_ids) and t.status = 'failed'
      union
      select i.task_id, i.job_id, i.child_run_id
      from failed f
      cross join lateral (
        select t.task_id, t.job_id, t.child_run_id from task t where t.parent_task_id = f.task_id and t.kind = 'item' and t.status = 'failed'
        union all
        select t.task_id, t.job_id, t.child_run_id from task t where t.run_id = f.child_run_id and t.status = 'failed'
      ) as i
    )
    select f.job_id from failed f join dead_letter z on z.id = f.job_id order by f.job_id));
end
$$;
comment on function fencepost_private.replay_tasks(bigint[]) is 'Replays the dead letters behind these failed tasks; returns how many.';
