-- Cancels a run and its child runs: tasks that wait end at once, running handlers are told, nothing new starts.
-- Cancelling twice changes nothing.
-- Locks: the root run, then tasks and jobs. Errors: JE002, JE003 (reason too long); JE004 when the run has completed or was compensated.
create function fencepost.cancel_run(run_id bigint, reason text default null)
returns void
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
#variable_conflict use_column
declare
  v_now timestamptz := fencepost_private.now();
  v_run run := lock_run(cancel_run.run_id);
begin
  perform check_length(cancel_run.reason, 'the reason');
  if v_run.status = 'cancelled' then
    return;
  end if;
  if v_run.status in ('completed', 'compensated') then
    perform raise_error('JE004', format('run %s is %s and cannot be cancelled', v_run.run_id, v_run.status), format('received run_id = %s', v_run.run_id), 'Only runs that can still move can be cancelled.');
  end if;
  perform cancel_runs(array[v_run.run_id], cancel_run.reason, v_now);
end
$$;
comment on function fencepost.cancel_run(bigint, text) is 'Cancels a run and its child runs; running handlers are told. Raises JE002, JE003, JE004.';

-- Cancels these runs and their children. The caller holds the roots.
create function fencepost_private.cancel_runs(p_run_ids bigint[], p_reason text, p_now timestamptz)
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
declare
  v_runs bigint[] := array(select distinct f from unnest(p_run_ids) as r cross join lateral unnest(run_family(r)) as f);
begin
  update run r set cancelled_at = p_now, paused_at = null, reason = p_reason
  where r.run_id = any (v_runs) and r.status not in ('completed', 'cancelled', 'compensated');
  perform stop_runs(v_runs, coalesce(p_reason, 'the run was cancelled'), p_now);
end
$$;
comment on function fencepost_private.cancel_runs(bigint[], text, timestamptz) is 'Cancels these runs and their child runs.';

-- Cancels whatever is alive in these runs: what waits ends, running handlers are told.
create function fencepost_private.stop_runs(p_run_ids bigint[], p_why text, p_now timestamptz)
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
declare
  v_jobs bigint[];
begin
  -- first what waits, so that a map or a parent does not end as failed because of what is cancelled inside of it
  perform advance(
    array(select row(t.task_id, 'cancelled', null, p_why)::task_end
          from task t where t.run_id = any (p_run_ids) and t.status in ('pending', 'waiting') order by t.task_id),
    null, array(select row(r, 0, 0, 0, 0, 0, 0, 0, 0)::run_delta from unnest(p_run_ids) as r), p_now);

  -- a job may move between the places while we look: look again, in new statements, until each has ended or was told.
  -- What a run that is not cancelled begins to undo by this goes on.
  for v_try in 1..20 loop
    v_jobs := array(
      select t.job_id from task t join run r on r.run_id = t.run_id
      where t.run_id = any (p_run_ids) and t.status = 'queued' and (t.kind <> 'compensation' or r.cancelled_at is not null)
        and not exists (select from lease l where l.id = t.job_id and l.cancel_requested_at is not null)
      order by t.job_id);
    exit when cardinality(v_jobs) = 0;
    perform cancel_jobs(v_jobs, p_why, p_now);
  end loop;
end
$$;
comment on function fencepost_private.stop_runs(bigint[], text, timestamptz) is 'Cancels whatever is alive in these runs.';
