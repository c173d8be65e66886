-- Gives one attempt back unstarted. Errors: JE001, JE002.
create function fencepost.release(job_id bigint, token int)
returns void
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
begin
  if not exists (select from fencepost.release_many(array[release.job_id], array[release.token])) then
    perform raise_lease_lost(release.job_id, release.token);
  end if;
end
$$;
comment on function fencepost.release(bigint, int) is 'Gives an attempt back unstarted, without counting it: the job is ready at once. Raises JE001, JE002.';
