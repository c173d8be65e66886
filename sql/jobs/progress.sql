-- Tells how far a running job is: any JSON. Only the latest is kept, so report when a person would care, not in a
-- tight loop. Locks: the lease, against its end. Errors: JE001, JE002, JE003 (null),
-- JE006 (larger than a payload of its type may be).
create function fencepost.progress(job_id bigint, token int, value jsonb)
returns void
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
#variable_conflict use_column
begin
  if progress.value is null then
    perform raise_error('JE003', 'progress needs a value', 'received null', 'Any JSON: 0.5, "half done", {"rows": 1200}.');
  end if;
  perform hold_lease(progress.job_id, progress.token);
  perform check_results(array[progress.job_id], array[progress.value], 'progress');
  insert into progress as p (job_id, token, value, at)
  values (progress.job_id, progress.token, progress.value, fencepost_private.now())
  on conflict (job_id) do update set token = excluded.token, value = excluded.value, at = excluded.at;
end
$$;
comment on function fencepost.progress(bigint, int, jsonb) is 'Records the latest progress of a running job. Raises JE001, JE002, JE003, JE006.';
