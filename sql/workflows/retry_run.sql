-- Tries every failed task of a run again, like replay_task; of a run that undoes what it did, the undoings that failed.
-- Returns how many tasks are tried again.
-- Locks: the root run. Errors: JE002; JE004 when nothing in it can be tried again.
create function fencepost.retry_run(run_id bigint)
returns int
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_run   run := lock_run(retry_run.run_id);
  v_count int := retry_tasks(array(select f.task_id from failed_tasks(v_run.run_id) as f), fencepost_private.now());
begin
  if v_count = 0 then
    perform raise_error('JE004', format('run %s is %s and has nothing to try again', v_run.run_id, v_run.status), format('received run_id = %s', v_run.run_id),
      'Use restart_run() to begin anew from a task.');
  end if;
  return v_count;
end
$$;
comment on function fencepost.retry_run(bigint) is 'Tries every failed task of a run again and returns how many. Raises JE002, JE004.';
