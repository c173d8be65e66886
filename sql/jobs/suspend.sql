-- A handler steps aside to wait: the job leaves its worker, holds no lease and no slot, and comes back under a new
-- token, at wake_at (or after delay) or when resume() is called, whichever is first. The attempt does not count.
--   waits_for  a name for what it waits for; resume() stores its data as the step of that name
-- Locks: the lease. Errors: JE001, JE002, JE003, JE004 (the job is being cancelled).
create function fencepost.suspend(job_id bigint, token int, wake_at timestamptz default null, delay interval default null, waits_for text default null)
returns void
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
#variable_conflict use_column
declare
  v_now    timestamptz := fencepost_private.now();
  v_wake   timestamptz;
  v_xid    bigint;
  v_types  int[];
begin
  perform check_job_options(suspend.wake_at, suspend.delay, null, null, null, null, null, 'suspend: ');
  v_wake := coalesce(suspend.wake_at, v_now + suspend.delay);
  if length(suspend.waits_for) not between 1 and 200 then
    perform raise_error('JE003', 'waits_for must have 1 to 200 characters', format('received %s characters', length(suspend.waits_for)),
      'It becomes the name of a step, which resume() records.');
  end if;
  perform lock_runs_of_leases(array[suspend.job_id]);
  v_xid := xid();
  with ended as (
    delete from lease l where l.id = suspend.job_id and l.token = suspend.token and l.cancel_requested_at is null returning l.*
  ), put as (
    insert into suspended (id, lane_id, attempts, token, suspended_at, wake_at, waits_for)
    select e.id, e.lane_id, e.attempts - 1, e.token, v_now, v_wake, suspend.waits_for from ended e
  ), told as (
    insert into event (xid, at, tenant, kind, outcome, lane_id, job_id, run_id, task_id, attempt, token, worker_id, ready_at, started_at, data)
    select v_xid, v_now, e.tenant, 'job.suspended', 'suspended', e.lane_id, e.id, e.run_id, e.task_id, e.attempts, e.token, e.worker_id, e.ready_at, e.started_at,
           jsonb_strip_nulls(jsonb_build_object('wake_at', v_wake, 'waits_for', suspend.waits_for))
    from ended e
  ), counted as (
    insert into depth_delta (type_id, xid, running, waiting)
    select l.type_id, v_xid, -1, 1 from ended e join lane l on l.lane_id = e.lane_id
    returning type_id
  )
  select array_agg(c.type_id) into v_types from counted c;
  if v_types is null then
    if exists (select from lease l where l.id = suspend.job_id and l.token = suspend.token) then
      perform raise_error('JE004', format('job %s is being cancelled and cannot be suspended', suspend.job_id), format('received job_id = %s', suspend.job_id),
        'Fail the attempt: the job then ends as cancelled.');
    end if;
    perform raise_lease_lost(suspend.job_id, suspend.token);
  end if;
  perform wake_limited(v_types);
end
$$;
comment on function fencepost.suspend(bigint, int, timestamptz, interval, text)
  is 'Takes a running job off its worker until a time or resume(); the attempt does not count. Raises JE001, JE002, JE003, JE004.';
