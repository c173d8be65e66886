-- Lets a held run go on: parked jobs are ready again, or wait on until the time of their retry, and tasks whose parents ended meanwhile start.
-- Locks: the root run, then the jobs. Errors: JE002; JE004 when it is not paused.
create function fencepost.resume_run(run_id bigint)
returns void
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_now  timestamptz := fencepost_private.now();
  v_run  run := lock_run(resume_run.run_id);
  v_runs bigint[];
  v_more record;
begin
  if v_run.paused_at is null then
    perform raise_error('JE004', format('run %s is %s, not paused', v_run.run_id, v_run.status), format('received run_id = %s', v_run.run_id), 'Only a paused run can be resumed.');
  end if;
  v_runs := run_family(v_run.run_id);
  update run r set paused_at = null, reason = null where r.run_id = any (v_runs);
  perform unpark_jobs(array(
    select p.id from task t join parked p on p.id = t.job_id
    where t.run_id = any (v_runs) and t.status = 'queued' and t.gate_id is null and p.waits_for is distinct from map_place(t.parent_task_id)));
  insert into event (xid, at, tenant, kind, run_id, actor) values (xid(), v_now, v_run.tenant, 'run.resumed', v_run.run_id, actor());
  select i.ends || u.ends as ends, i.deltas || u.deltas as deltas into v_more
  from start_items(array(select t.task_id from task t where t.run_id = any (v_runs) and t.kind = 'map' and t.status = 'waiting'), v_now) as i
  cross join undo_runs(v_runs, v_now) as u;
  perform advance(v_more.ends, startable(v_runs), v_more.deltas || array(select row(r, 0, 0, 0, 0, 0, 0, 0, 0)::run_delta from unnest(v_runs) as r), v_now);
end
$$;
comment on function fencepost.resume_run(bigint) is 'Lets a paused run and its child runs go on. Raises JE002, JE004.';
