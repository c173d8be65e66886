-- A worker's whole round in one transaction: results in, new work out.
--
-- In this order: the completed and the failed attempts are settled; new jobs are claimed; a heartbeat is written if one
-- is due, with the jobs that still run. Results are fenced by (job, token) and by the worker's number.
--
--   completed_ids, completed_tokens, completed_results          attempts that went well
--   failed_ids, failed_tokens, failed_errors, failed_details,
--   failed_retry_in, failed_permanent                           attempts that went wrong, as in fail()
--   running_ids, running_tokens                                 what the worker still runs, besides those
--   types, max                                                  what to claim; max 0 claims nothing
--
-- Returns rows that say what to do, by `directive`:
--   run          a claimed job: start it
--   lost         a result that was refused, or a running job that is not this worker's any more: abort, forget
--   busy         a result whose workflow run is locked by somebody else: send it again
--   retry, dead_letter, cancelled   what became of each failed attempt
--   cancel, timeout, drain          as in heartbeat()
-- Locks: leases in id order; claims wait for nothing. Errors: JE003, JE006 (a result too large; nothing was done),
-- JE010 (the worker is lost: nothing was done, its results belong to nobody).
create function fencepost.exchange(
  worker_id int,
  completed_ids bigint[] default '{}', completed_tokens int[] default '{}', completed_results jsonb[] default null,
  failed_ids bigint[] default '{}', failed_tokens int[] default '{}', failed_errors text[] default null, failed_details jsonb[] default null,
  failed_retry_in interval[] default null, failed_permanent boolean[] default null,
  running_ids bigint[] default '{}', running_tokens int[] default '{}',
  types text[] default '{}', max int default 0)
returns table (directive text, job_id bigint, token int, type text, attempt int, max_attempts int, payload jsonb, headers jsonb, priority int,
               tenant text, idempotency_key text, created_at timestamptz, deadline timestamptz, run_id bigint, task_id bigint)
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
#variable_conflict use_column
declare
  v_now    timestamptz := fencepost_private.now();
  v_active boolean;
  v_due    boolean;
  v_done   record;
  v_busy   bigint[];
begin
  perform check_claim(exchange.types, exchange.max);
  perform check_pairs(exchange.completed_ids, exchange.completed_tokens, 'exchange (completed)', '{results}', array[cardinality(exchange.completed_results)]);
  perform check_pairs(exchange.failed_ids, exchange.failed_tokens, 'exchange (failed)', '{errors,details,retry_in,permanent}',
                      array[cardinality(exchange.failed_errors), cardinality(exchange.failed_details), cardinality(exchange.failed_retry_in), cardinality(exchange.failed_permanent)]);
  perform check_pairs(exchange.running_ids, exchange.running_tokens, 'exchange (running)');
  v_active := enter_worker(exchange.worker_id);

  -- a run that somebody holds makes nobody wait: its results are handed back, to be sent again
  v_busy := busy_jobs(exchange.completed_ids || exchange.failed_ids);
  if cardinality(v_busy) > 0 then
    return query
    select 'busy', r.id, r.token, null::text, null::int, null::int, null::jsonb, null::jsonb, null::int, null::text, null::text,
           null::timestamptz, null::timestamptz, null::bigint, null::bigint
    from unnest(exchange.completed_ids || exchange.failed_ids, exchange.completed_tokens || exchange.failed_tokens) as r(id, token) where r.id = any (v_busy);
    select coalesce(array_agg(c.id), '{}'), coalesce(array_agg(c.token), '{}'), array_agg(c.result)
      into exchange.completed_ids, exchange.completed_tokens, exchange.completed_results
    from unnest(exchange.completed_ids, exchange.completed_tokens, coalesce(exchange.completed_results, '{}')) as c(id, token, result) where not c.id = any (v_busy);
    select coalesce(array_agg(f.id), '{}'), coalesce(array_agg(f.token), '{}'), array_agg(f.error), array_agg(f.details), array_agg(f.retry_in), array_agg(f.permanent)
      into exchange.failed_ids, exchange.failed_tokens, exchange.failed_errors, exchange.failed_details, exchange.failed_retry_in, exchange.failed_permanent
    from unnest(exchange.failed_ids, exchange.failed_tokens, coalesce(exchange.failed_errors, '{}'), coalesce(exchange.failed_details, '{}'),
                coalesce(exchange.failed_retry_in, '{}'), coalesce(exchange.failed_permanent, '{}')) as f(id, token, error, details, retry_in, permanent)
    where not f.id = any (v_busy);
  end if;

  -- results of both kinds: their leases are locked in one order, together
  if cardinality(exchange.completed_ids) > 0 and cardinality(exchange.failed_ids) > 0 then
    perform hold_leases(exchange.completed_ids || exchange.failed_ids);
  end if;
  if cardinality(exchange.completed_ids) > 0 then
    perform check_results(exchange.completed_ids, exchange.completed_results);
    select c.done_ids, c.done_tokens into v_done
    from complete_jobs(exchange.completed_ids, exchange.completed_tokens, exchange.completed_results, exchange.worker_id, v_now) as c;
    if cardinality(v_done.done_ids) < cardinality(exchange.completed_ids) then
      return query
      select 'lost', c.id, c.token, null::text, null::int, null::int, null::jsonb, null::jsonb, null::int, null::text, null::text,
             null::timestamptz, null::timestamptz, null::bigint, null::bigint
      from unnest(exchange.completed_ids, exchange.completed_tokens) as c(id, token)
      where not exists (select from unnest(v_done.done_ids, v_done.done_tokens) as d(id, token) where d.id = c.id and d.token = c.token);
    end if;
  end if;

  if cardinality(exchange.failed_ids) > 0 then
    return query
    with settled as (
      select f.job_id, f.token, f.verdict
      from fail_jobs(exchange.failed_ids, exchange.failed_tokens, exchange.failed_errors, exchange.failed_details,
                     exchange.failed_retry_in, exchange.failed_permanent, exchange.worker_id, 'failed', v_now) as f
    )
    select coalesce(s.verdict, 'lost'), f.id, f.token, null::text, null::int, null::int, null::jsonb, null::jsonb, null::int, null::text, null::text,
           null::timestamptz, null::timestamptz, null::bigint, null::bigint
    from unnest(exchange.failed_ids, exchange.failed_tokens) with ordinality as f(id, token, ordinal)
    left join settled s on s.job_id = f.id and s.token = f.token
    order by f.ordinal;
  end if;

  if v_active and exchange.max > 0 then
    return query
    select 'run', c.* from claim_jobs(exchange.worker_id, exchange.types, exchange.max, v_now) as c;
  end if;

  -- last, so that the worker's row is not locked while we wait for a lease, and heartbeats go on
  select w.heartbeat_at < v_now - w.ttl / 3 into v_due from worker w where w.worker_id = exchange.worker_id;
  if v_due then
    return query
    select b.directive, b.job_id, b.token, null::text, null::int, null::int, null::jsonb, null::jsonb, null::int, null::text, null::text,
           null::timestamptz, null::timestamptz, null::bigint, null::bigint
    from beat(exchange.worker_id, null, exchange.running_ids, exchange.running_tokens, v_now) as b;
  end if;
end
$$;
comment on function fencepost.exchange(int, bigint[], int[], jsonb[], bigint[], int[], text[], jsonb[], interval[], boolean[], bigint[], int[], text[], int)
  is 'One round of a worker in one transaction: heartbeat if due, settle results, claim new work; returns directives and jobs. Raises JE003, JE006, JE010.';

-- Locks leases against their end, in id order, before they are ended in groups.
create function fencepost_private.hold_leases(p_ids bigint[])
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
  perform from lease l where l.id = any (p_ids) order by l.id for update;
end
$$;
comment on function fencepost_private.hold_leases(bigint[]) is 'Locks these leases in id order, to the end of the transaction.';
