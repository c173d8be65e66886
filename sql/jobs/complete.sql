-- Completes one attempt, in the caller's transaction: what the handler wrote there, the result and the event are one
-- commit. When the lease was lost it raises, so the caller's transaction rolls back and nothing is done twice.
-- Locks: the root run of a task's job, then the lease; waits for a transaction that is ending the same attempt, or holds
-- the run. Called in the transaction that claimed the job of a run, it may meet an operator of that run who waits for the
-- job: PostgreSQL ends one of the two with 40P01, and it can be done again.
-- Errors: JE001 (stale token), JE002 (no such job), JE006 (result too large).
create function fencepost.complete(job_id bigint, token int, result jsonb default null)
returns void
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_done bigint[];
begin
  perform check_results(array[complete.job_id], array[complete.result]);
  select c.done_ids into v_done
  from complete_jobs(array[complete.job_id], array[complete.token], array[complete.result], null, fencepost_private.now()) as c;
  if cardinality(v_done) = 0 then
    perform raise_lease_lost(complete.job_id, complete.token);
  end if;
end
$$;
comment on function fencepost.complete(bigint, int, jsonb)
  is 'Completes the attempt that holds this token, in the caller''s transaction. Raises JE001 when it was lost, JE002, JE006.';

-- Errors: JE002 when there is no such job, else JE001, saying where it stands.
create function fencepost_private.raise_lease_lost(p_job_id bigint, p_token int)
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_status text := job_status(p_job_id);
begin
  if v_status is null then
    perform raise_not_found(p_job_id);
  end if;
  perform raise_error('JE001', format('job %s is not leased under token %s', p_job_id, coalesce(p_token::text, 'null')), format('the job is %s', v_status),
    'The lease was lost or the attempt has ended: stop working on it and write nothing more for it.');
end
$$;
comment on function fencepost_private.raise_lease_lost(bigint, int) is 'Raises JE001 for a stale (job, token), or JE002 for an unknown job.';

create function fencepost_private.raise_not_found(p_job_id bigint)
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
begin
  perform raise_error('JE002', format('job %s does not exist', coalesce(p_job_id::text, 'null')), format('received job_id = %s', coalesce(p_job_id::text, 'null')),
    'Finished jobs are removed after keep_finished of their type.');
end
$$;
comment on function fencepost_private.raise_not_found(bigint) is 'Raises JE002 for a job id.';
