-- Cancels a job. One that waits ends at once ('cancelled'). One that runs is asked to stop ('cancel_requested'): its
-- worker is told, its handler's signal fires, and however the attempt then ends other than well, the job is cancelled.
-- Asking twice changes nothing.
-- Locks: the row of the place that holds the job; waits for a claim or completion in flight.
-- Errors: JE002; JE004 when it has ended or is dead-lettered (see discard).
create function fencepost.cancel(job_id bigint, reason text default null)
returns text
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_now     timestamptz := fencepost_private.now();
  v_verdict text;
  v_status  text;
begin
  -- a job may move between the places while we look: look again, in new statements, until it is found or has ended
  for v_try in 1..20 loop
    select c.verdict into v_verdict from cancel_jobs(array[cancel.job_id], cancel.reason, v_now) as c;
    if found then
      return v_verdict;
    end if;
    v_status := job_status(cancel.job_id);
    exit when v_status is null or v_status not in ('pending', 'running', 'waiting');
  end loop;
  if v_status is null then
    perform raise_not_found(cancel.job_id);
  end if;
  perform raise_error('JE004', format('job %s is %s and cannot be cancelled', cancel.job_id, v_status), format('received job_id = %s', cancel.job_id),
    case v_status when 'dead_letter' then 'Use fencepost.discard() to give a dead letter up, or fencepost.replay() to try it again.'
                  else 'Only pending, running and waiting jobs can be cancelled.' end);
  return null;   -- never reached
end
$$;
comment on function fencepost.cancel(bigint, text)
  is 'Cancels a waiting job at once or asks a running one to stop; returns cancelled or cancel_requested. Raises JE002, JE004.';
