-- Holds a run, and its child runs: nothing of it is started any more. What runs now finishes; its jobs that wait are
-- parked, and so is a retry that comes up meanwhile: it keeps its wait. Pausing twice changes nothing.
-- Locks: the root run, then the jobs. Errors: JE002, JE003 (reason too long); JE004 when the run has ended.
create function fencepost.pause_run(run_id bigint, reason text default null)
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
  v_run  run := lock_run(pause_run.run_id);
  v_runs bigint[];
begin
  perform check_length(pause_run.reason, 'the reason');
  if v_run.paused_at is not null then
    return;
  end if;
  if v_run.status in ('completed', 'cancelled', 'compensated') then
    perform raise_error('JE004', format('run %s is %s and cannot be paused', v_run.run_id, v_run.status), format('received run_id = %s', v_run.run_id), 'Only runs that can still move can be held.');
  end if;
  v_runs := run_family(v_run.run_id);
  update run r set paused_at = v_now, reason = pause_run.reason
  where r.run_id = any (v_runs) and r.paused_at is null and r.status not in ('completed', 'cancelled', 'compensated');
  perform park_jobs(array(select t.job_id from task t where t.run_id = any (v_runs) and t.status = 'queued'), 'run');
  insert into event (xid, at, tenant, kind, run_id, actor, data)
  values (xid(), v_now, v_run.tenant, 'run.paused', v_run.run_id, actor(), case when pause_run.reason is not null then jsonb_build_object('reason', pause_run.reason) end);
  perform advance(null, null, array(select row(r, 0, 0, 0, 0, 0, 0, 0, 0)::run_delta from unnest(v_runs) as r), v_now);
end
$$;
comment on function fencepost.pause_run(bigint, text) is 'Holds a run and its child runs; what runs now finishes. Raises JE002, JE003, JE004.';

-- A run and all its child runs, outermost first.
create function fencepost_private.run_family(p_run_id bigint)
returns bigint[]
language sql
stable
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
  with recursive kin as materialized (
    select c.run_id, t.run_id as around
    from run r
    join run c on c.root_run_id = r.root_run_id and c.root_run_id <> c.run_id
    join task t on t.task_id = c.parent_task_id
    where r.run_id = p_run_id
  ), family as (
    select p_run_id as run_id
    union all
    select k.run_id from family f join kin k on k.around = f.run_id
  )
  select array_agg(f.run_id order by f.run_id) from family f
$$;
comment on function fencepost_private.run_family(bigint) is 'A run and all its child runs, in id order.';
