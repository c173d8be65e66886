-- Fails many attempts at once; each array is as long as job_ids or left out. Stale pairs are passed over; a wait
-- that is negative counts as none, and one beyond 100 years as that.
-- Locks: the leases, in id order. Errors: JE003.
create function fencepost.fail_many(
  job_ids bigint[], tokens int[], errors text[] default null, retry_in interval[] default null, permanent boolean[] default null, details jsonb[] default null)
returns table (job_id bigint, verdict text, token int)
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
begin
  perform check_pairs(fail_many.job_ids, fail_many.tokens, 'fail_many', '{errors,retry_in,permanent,details}',
                      array[cardinality(fail_many.errors), cardinality(fail_many.retry_in), cardinality(fail_many.permanent), cardinality(fail_many.details)]);
  return query
  select f.job_id, f.verdict, f.token
  from fail_jobs(fail_many.job_ids, fail_many.tokens, fail_many.errors, fail_many.details, fail_many.retry_in, fail_many.permanent,
                 null, 'failed', fencepost_private.now()) as f;
end
$$;
comment on function fencepost.fail_many(bigint[], int[], text[], interval[], boolean[], jsonb[])
  is 'Fails the attempts named by (job, token); returns retry, dead_letter or cancelled for each accepted one. Raises JE003.';
