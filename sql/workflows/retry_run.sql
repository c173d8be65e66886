-- Tries every failed task of a run again. Returns how many dead letters were replayed.
-- Locks: the root run. Errors: JE002; JE004 when nothing in it can be replayed.
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
  v_count int;
begin
  v_count := replay_tasks(array(select t.task_id from task t where t.run_id = v_run.run_id and t.status = 'failed'));
  if v_count = 0 then
    perform raise_error('JE004', format('run %s is %s and has no dead letter to replay', v_run.run_id, v_run.status), format('received run_id = %s', v_run.run_id),
      'Use restart_run() to begin anew from a task.');
  end if;
  return v_count;
end
$$;
comment on function fencepost.retry_run(bigint) is 'Replays every dead letter of a run and returns how many. Raises JE002, JE004.';
