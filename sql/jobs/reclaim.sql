-- Taking work back from workers that are gone. Three small steps, called by maintain().

-- Death takes two looks: silent for half its ttl, a worker is suspected; still silent half a ttl after that, it is
-- lost. A server that was down, or a maintain() that did not run, gives every worker half a ttl to speak up.
-- Locks: the rows of silent workers, SKIP LOCKED.
create function fencepost_private.mark_lost(p_now timestamptz default fencepost_private.now())
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_lost bigint;
begin
  update worker w set suspect_at = p_now
  where w.worker_id = any (array(
    select s.worker_id from worker s
    where s.status in ('active', 'draining') and s.suspect_at is null and s.heartbeat_at < p_now - s.ttl / 2
    for update skip locked));

  with lost as (
    update worker w set status = 'lost', ended_at = p_now
    where w.worker_id = any (array(
      select s.worker_id from worker s
      where s.status in ('active', 'draining') and s.suspect_at <= p_now - s.ttl / 2 and s.heartbeat_at < p_now - s.ttl
      for update skip locked))
    returning w.*
  ), told as (
    insert into event (xid, at, tenant, kind, worker_id, data)
    select xid(), p_now, l.tenant, 'worker.lost', l.worker_id,
           jsonb_build_object('worker', l.name, 'reason', 'silent', 'last_heartbeat', l.heartbeat_at)
    from lost l
  )
  select count(*) into v_lost from lost;
  return v_lost;
end
$$;
comment on function fencepost_private.mark_lost(timestamptz) is 'Suspects silent workers, and declares lost those that stayed silent. Returns how many were lost.';

-- Takes back, at most p_limit: leases of workers that are lost or stopped (the attempt ends as lease_expired, and
-- counts: a job that kills its workers must not live for ever); leases that a live worker has not named for three
-- ttls in which it spoke (it forgot them; what nobody could say during an outage does not count); leases past their
-- deadline (timed_out).
-- A worker is closed only when no claim of it can be open (its lock was free) and a later statement finds no lease.
-- Locks: root runs and leases, both SKIP LOCKED.
create function fencepost_private.reclaim(p_limit int default 1000, p_now timestamptz default fencepost_private.now())
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_gone   int[] := array(select w.worker_id from worker w where not w.swept and w.status in ('lost', 'stopped'));
  v_quiet  int[] := array(select g from unnest(v_gone) as g where pg_try_advisory_xact_lock(lock_worker(), g));
  v_found  bigint[];
  v_left   bigint[] := left_alone('reclaim', p_now);
  v_count  bigint;
begin
  -- look without locking, lock the runs (those that somebody holds come with the next pass), then lock and look again
  v_found := array(
    select l.id from lease l left join worker w on w.worker_id = l.worker_id
    where (l.worker_id = any (v_gone)
           or l.deadline <= p_now
           or greatest(l.started_at, l.seen_at, w.returned_at) < coalesce(w.heartbeat_at, p_now) - 3 * coalesce(w.ttl, interval '30 seconds'))
      and not l.id = any (v_left)
    limit p_limit);
  if cardinality(v_found) > 0 then
    v_found := array(select f from unnest(v_found) as f except select b from unnest(busy_jobs(v_found)) as b);
  end if;
  v_count := isolated('reclaim', 'reclaim_jobs($1, $2)', v_found, p_now);

  if cardinality(v_quiet) > 0 then
    update worker w set swept = true
    where w.worker_id = any (v_quiet)
      and not exists (select from lease l where l.worker_id = any (v_quiet) and l.worker_id = w.worker_id);
  end if;
  return v_count;
end
$$;
comment on function fencepost_private.reclaim(int, timestamptz) is 'Takes back leases of gone workers, forgotten leases and overdue attempts, and closes swept workers. Returns how many.';

-- Ends the attempts of those of these leases that are to be taken back; their runs are locked. Returns how many.
-- Locks: the leases, SKIP LOCKED.
create function fencepost_private.reclaim_jobs(p_ids bigint[], p_now timestamptz)
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_taken record;
begin
  with taken as materialized (
    select l.id, l.token, l.deadline <= p_now as is_overdue, l.started_at, l.deadline, w.name, w.worker_id,
           w.status in ('lost', 'stopped') as is_gone
    from lease l
    left join worker w on w.worker_id = l.worker_id
    where l.id = any (p_ids)
      and (w.status in ('lost', 'stopped')
           or l.deadline <= p_now
           or greatest(l.started_at, l.seen_at, w.returned_at) < coalesce(w.heartbeat_at, p_now) - 3 * coalesce(w.ttl, interval '30 seconds'))
    for update of l skip locked
  )
  select array_agg(t.id) filter (where t.is_overdue is not true) as ids,
         array_agg(t.token) filter (where t.is_overdue is not true) as tokens,
         array_agg(case when t.is_gone then format('worker %s (%s) is gone: its lease expired', t.name, t.worker_id)
                        else format('worker %s (%s) no longer names this job: its lease expired', t.name, t.worker_id) end)
           filter (where t.is_overdue is not true) as errors,
         array_agg(t.id) filter (where t.is_overdue) as overdue_ids,
         array_agg(t.token) filter (where t.is_overdue) as overdue_tokens,
         array_agg(format('timed out after %s', t.deadline - t.started_at)) filter (where t.is_overdue) as overdue_errors
    into v_taken
  from taken t;

  return (
    select count(*)
    from fail_jobs(v_taken.ids, v_taken.tokens, v_taken.errors, null, null, null, null, 'lease_expired', p_now)) + (
    select count(*)
    from fail_jobs(v_taken.overdue_ids, v_taken.overdue_tokens, v_taken.overdue_errors, null, null, null, null, 'timed_out', p_now));
end
$$;
comment on function fencepost_private.reclaim_jobs(bigint[], timestamptz) is 'Ends the attempts of those of these leases that are to be taken back. Returns how many.';
