-- Fails one attempt. The job is tried again after its type's backoff (or after retry_in), unless its attempts are
-- used up or `permanent` says that trying again is useless: then it is dead-lettered.
--   error    what went wrong, for people; longer than 64 KiB is cut
--   details  anything structured that belongs to it: name, stack, cause; beyond 64 KiB cut, and then a text
-- Returns 'retry', 'dead_letter' or 'cancelled' (cancellation had been asked for).
-- Locks: the lease. Errors: JE001 (stale token), JE002 (no such job), JE003 (retry_in negative or beyond 100 years).
create function fencepost.fail(job_id bigint, token int, error text default null, retry_in interval default null, permanent boolean default false, details jsonb default null)
returns text
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_verdict text;
begin
  if fail.retry_in not between interval '0' and interval '100 years' then
    perform raise_error('JE003', 'retry_in must be from 0 to 100 years', format('received retry_in = %s', fail.retry_in), 'Use 0 to try again at once.');
  end if;
  select f.verdict into v_verdict
  from fail_jobs(array[fail.job_id], array[fail.token], array[fail.error], array[fail.details], array[fail.retry_in], array[fail.permanent],
                 null, 'failed', fencepost_private.now()) as f;
  if v_verdict is null then
    perform raise_lease_lost(fail.job_id, fail.token);
  end if;
  return v_verdict;
end
$$;
comment on function fencepost.fail(bigint, int, text, interval, boolean, jsonb)
  is 'Fails the attempt that holds this token; returns retry, dead_letter or cancelled. Raises JE001, JE002, JE003.';
