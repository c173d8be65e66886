-- Ends attempts badly, set-wise. Each job is tried again after its backoff, or dead-lettered when its attempts are
-- used up or the failure is permanent, or cancelled when that was asked for meanwhile. Stale pairs are passed over.
-- An attempt whose deadline has passed ends as timed_out, whatever the worker called it.
-- Locks: the leases, in id order.
create function fencepost_private.fail_jobs(
  p_ids bigint[], p_tokens int[], p_errors text[], p_details jsonb[], p_retry_in interval[], p_permanent boolean[],
  p_worker_id int, p_outcome fencepost_private.attempt_outcome, p_now timestamptz)
returns table (job_id bigint, token int, verdict text)
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
#variable_conflict use_column
declare
  v_xid    bigint;
  v_ids    bigint[];
  v_marks  int[];
  v_says   text[];
  v_woken  int[];
  v_types  int[];
  v_ends   task_end[];
  v_again  bigint[];
begin
  if p_ids is null or cardinality(p_ids) = 0 then
    return;
  end if;
  if p_worker_id is null then     -- an exchange has locked them before
    perform lock_runs_of_leases(p_ids);
  end if;
  v_xid := xid();
  with given as materialized (
    select u.id, u.token, clipped(coalesce(u.error, 'unknown error')) as error, u.retry_in, coalesce(u.permanent, false) as permanent,
           case when pg_column_size(u.details) > 65536 then to_jsonb(clipped(u.details::text)) else u.details end as details
    from unnest(p_ids, p_tokens, coalesce(p_errors, '{}'), coalesce(p_details, '{}'), coalesce(p_retry_in, '{}'), coalesce(p_permanent, '{}'))
         as u(id, token, error, details, retry_in, permanent)
    order by u.id
  ), ended as (
    delete from lease l using given g
    where l.id = g.id and l.token = g.token and (p_worker_id is null or l.worker_id = p_worker_id)
    returning l.*, g.error, g.details, g.retry_in, g.permanent
  ), judged as materialized (
    select e.*, n.type_id,
           case when e.cancel_requested_at is not null then 'cancelled'
                when e.permanent or e.attempts >= coalesce(b.max_attempts, t.max_attempts) then 'dead_letter'
                else 'retry' end as verdict,
           case when e.cancel_requested_at is not null and p_outcome = 'failed' then 'cancelled'
                when p_outcome = 'failed' and e.deadline <= p_now then 'timed_out'
                else p_outcome end as outcome,
           p_now + coalesce(case when e.retry_in < interval '0' then interval '0' when e.retry_in > interval '100 years' then interval '100 years' else e.retry_in end,
                            case when p_outcome = 'lease_expired' then interval '0' end,
                            retry_delay(e.attempts, t.backoff_base, t.backoff_factor, t.backoff_cap, t.backoff_jitter)) as again_at
    from ended e
    join job b on b.id = e.id
    join lane n on n.lane_id = e.lane_id
    join job_type t on t.type_id = n.type_id
  ), put_ready as (
    insert into ready (id, xid, lane_id, attempts, token, ready_at)
    select j.id, v_xid, j.lane_id, j.attempts, j.token, p_now from judged j where j.verdict = 'retry' and j.again_at <= p_now
  ), put_delayed as (
    insert into delayed (id, available_at, lane_id, attempts, token)
    select j.id, j.again_at, j.lane_id, j.attempts, j.token from judged j where j.verdict = 'retry' and j.again_at > p_now
  ), buried as (
    insert into dead_letter (id, lane_id, attempts, token, tenant, final_error, details, failed_at)
    select j.id, j.lane_id, j.attempts, j.token, j.tenant, j.error, j.details, p_now from judged j where j.verdict = 'dead_letter'
  ), told as (
    insert into event (xid, at, tenant, kind, outcome, lane_id, job_id, run_id, task_id, attempt, token, worker_id, ready_at, started_at, data)
    select v_xid, p_now, j.tenant,
           (case j.verdict when 'retry' then 'job.retry_scheduled' when 'dead_letter' then 'job.dead_lettered' else 'job.cancelled' end)::event_kind,
           j.outcome, j.lane_id, j.id, j.run_id, j.task_id, j.attempts, j.token, j.worker_id, j.ready_at, j.started_at,
           jsonb_strip_nulls(jsonb_build_object('error', j.error, 'details', j.details,
             'available_at', case when j.verdict = 'retry' then j.again_at end, 'permanent', nullif(j.permanent, false), 'reason', j.cancel_reason))
    from judged j order by j.id
  ), counted as (
    insert into depth_delta (type_id, xid, running, ready, delayed, dead_letter)
    select j.type_id, v_xid, -count(*),
           count(*) filter (where j.verdict = 'retry' and j.again_at <= p_now),
           count(*) filter (where j.verdict = 'retry' and j.again_at > p_now),
           count(*) filter (where j.verdict = 'dead_letter')
    from judged j group by j.type_id
    returning type_id
  )
  select array_agg(j.id), array_agg(j.token), array_agg(j.verdict),
         array_agg(distinct j.type_id) filter (where j.verdict = 'retry'), array_agg(distinct j.type_id),
         array_agg(row(j.task_id, case j.verdict when 'dead_letter' then 'failed' else 'cancelled' end, null, j.error)::task_end) filter (where j.task_id is not null and j.verdict <> 'retry'),
         array_agg(j.id) filter (where j.run_id is not null and j.verdict = 'retry')
    into v_ids, v_marks, v_says, v_woken, v_types, v_ends, v_again
  from judged j;
  if v_ids is null then
    return;
  end if;
  perform jobs_ended(v_ends, p_now);
  if v_again is not null then
    perform park_paused(v_again);
  end if;
  perform wake(v_woken);
  perform wake_limited(v_types);
  return query select * from unnest(v_ids, v_marks, v_says);
end
$$;
comment on function fencepost_private.fail_jobs(bigint[], int[], text[], jsonb[], interval[], boolean[], int, fencepost_private.attempt_outcome, timestamptz)
  is 'Fails the attempts named by (job, token): retry, dead_letter or cancelled for each; stale pairs are passed over.';
