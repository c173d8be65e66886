-- Ends attempts well, set-wise: deletes their leases, writes one event each. Whoever does not hold (job, token) is
-- passed over; with p_worker_id the lease must also be that worker's. Returns the accepted pairs, two empty arrays if none.
-- Locks: root runs of the jobs, then the leases, in id order.
create function fencepost_private.complete_jobs(
  p_ids bigint[], p_tokens int[], p_results jsonb[], p_worker_id int, p_now timestamptz, out done_ids bigint[], out done_tokens int[])
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_xid   bigint;
  v_types int[];
  v_ends  task_end[];
begin
  done_ids := '{}'::bigint[];
  done_tokens := '{}'::int[];
  if p_ids is null or cardinality(p_ids) = 0 then
    return;
  end if;
  if p_worker_id is null then     -- an exchange has locked them before
    perform lock_runs_of_leases(p_ids);
  end if;
  v_xid := xid();
  with ended as (
    delete from lease l
    using (select u.id, u.token, u.result from unnest(p_ids, p_tokens, coalesce(p_results, '{}')) as u(id, token, result) order by u.id) as given
    where l.id = given.id and l.token = given.token and (p_worker_id is null or l.worker_id = p_worker_id)
    returning l.*, given.result
  ), told as (
    insert into event (xid, at, tenant, kind, outcome, lane_id, job_id, run_id, task_id, attempt, token, worker_id, ready_at, started_at, data)
    select v_xid, p_now, e.tenant, 'job.completed', 'completed', e.lane_id, e.id, e.run_id, e.task_id, e.attempts, e.token, e.worker_id, e.ready_at, e.started_at, e.result
    from ended e
  ), counted as (
    insert into depth_delta (type_id, xid, running)
    select l.type_id, v_xid, -sum(e.n)
    from (select lane_id, count(*) as n from ended group by lane_id) as e
    join lane l on l.lane_id = e.lane_id
    group by l.type_id
    returning type_id
  )
  select coalesce(array_agg(e.id), '{}'), coalesce(array_agg(e.token), '{}'), (select array_agg(c.type_id) from counted c),
         array_agg(row(e.task_id, 'completed', e.result, null)::task_end) filter (where e.task_id is not null)
    into done_ids, done_tokens, v_types, v_ends
  from ended e;
  if v_types is not null then
    perform jobs_ended(v_ends, p_now);
    perform wake_limited(v_types);
  end if;
end
$$;
comment on function fencepost_private.complete_jobs(bigint[], int[], jsonb[], int, timestamptz)
  is 'Completes the attempts named by (job, token) and returns the accepted pairs; stale ones are passed over.';

-- A slot came free: wakes who sleeps for those of these types that have a limit.
create function fencepost_private.wake_limited(p_type_ids int[])
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_limited int[] := array(select t.type_id from job_type t where t.type_id = any (p_type_ids) and t.max_running is not null);
begin
  if cardinality(v_limited) > 0 then
    perform wake(v_limited);
  end if;
end
$$;
comment on function fencepost_private.wake_limited(int[]) is 'Wakes workers that sleep for those of these types whose max_running may have held them back.';

-- Refuses a result (or step, or progress) that is larger than a payload of its type may be. Errors: JE006.
create function fencepost_private.check_results(p_ids bigint[], p_results jsonb[], p_what text default 'result')
returns void
language plpgsql
stable
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v record;
begin
  if p_results is null then
    return;
  end if;
  -- as good as always none is larger than even the strictest type allows
  if coalesce((select max(octet_length(r.result::text)) from unnest(p_results) as r(result)), 0) <= (select min(t.max_payload_bytes) from job_type t) then
    return;
  end if;
  select u.id, octet_length(u.result::text) as bytes, t.max_payload_bytes into v
  from unnest(p_ids, p_results) as u(id, result)
  join lease l on l.id = u.id
  join lane n on n.lane_id = l.lane_id
  join job_type t on t.type_id = n.type_id
  where octet_length(u.result::text) > t.max_payload_bytes
  limit 1;
  if found then
    perform raise_error('JE006', format('the %s of job %s is too large', p_what, v.id), format('received %s bytes; the limit is %s', v.bytes, v.max_payload_bytes),
      'Store large data elsewhere and return a reference to it, or raise max_payload_bytes of the type.');
  end if;
end
$$;
comment on function fencepost_private.check_results(bigint[], jsonb[], text) is 'Raises JE006 for the first result that is larger than its type allows.';

-- Both arrays of a batch must name pairs, and what is told of the jobs (p_names, of these p_lengths; null was left out)
-- must be as long: else something would be told of the wrong job, or be lost. Errors: JE003.
create function fencepost_private.check_pairs(p_ids bigint[], p_tokens int[], p_what text, p_names text[] default '{}', p_lengths int[] default '{}')
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
begin
  if coalesce(cardinality(p_ids), 0) <> coalesce(cardinality(p_tokens), 0) then
    perform raise_error('JE003', format('%s needs one token for each job id', p_what),
      format('received %s ids and %s tokens', coalesce(cardinality(p_ids), 0), coalesce(cardinality(p_tokens), 0)), 'The token is what claim returned with the job.');
  end if;
  for v_place in 1..cardinality(p_names) loop
    if p_lengths[v_place] <> coalesce(cardinality(p_ids), 0) then
      perform raise_error('JE003', format('%s needs one of %s for each job id, or none at all', p_what, p_names[v_place]),
        format('received %s ids and %s %s', coalesce(cardinality(p_ids), 0), p_lengths[v_place], p_names[v_place]), 'Give nulls where there is nothing to tell, or leave the array out.');
    end if;
  end loop;
end
$$;
comment on function fencepost_private.check_pairs(bigint[], int[], text, text[], int[]) is 'Raises JE003 unless there is one token for each job id, and arrays about the jobs are as long.';
