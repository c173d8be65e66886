-- Completes many attempts at once. Stale pairs are passed over: compare the pairs that come back with those that were
-- sent (a worker may hold a job under a new token while it still reports an old one).
-- Locks: the leases, in id order. Errors: JE003 (arrays of different length), JE006.
create function fencepost.complete_many(job_ids bigint[], tokens int[], results jsonb[] default null)
returns table (job_id bigint, token int)
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
begin
  perform check_pairs(complete_many.job_ids, complete_many.tokens, 'complete_many', '{results}', array[cardinality(complete_many.results)]);
  perform check_results(complete_many.job_ids, complete_many.results);
  return query
  select d.id, d.token
  from complete_jobs(complete_many.job_ids, complete_many.tokens, complete_many.results, null, fencepost_private.now()) as c
  cross join lateral unnest(c.done_ids, c.done_tokens) as d(id, token);
end
$$;
comment on function fencepost.complete_many(bigint[], int[], jsonb[])
  is 'Completes the attempts named by (job, token) and returns the accepted ones; stale pairs are passed over. Raises JE003, JE006.';
