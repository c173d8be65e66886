-- Why a job is not running now, or where it is: one row for each reason that holds, with what would release it.
--   reason   a word, for programs: delayed, due, parked, waiting, type_paused, no_worker, workers_draining,
--            limit_reached, claim_open, being_claimed, behind, unreachable, claimable · running, cancel_requested,
--            worker_silent, overdue · dead_letter, completed, cancelled, discarded
--   detail   the same for people, with names and numbers
--   since    since when it is so, where that is known
--   release  what would change it
-- Reads only. Errors: JE002.
create function fencepost.explain_job(job_id bigint)
returns table (reason text, detail text, since timestamptz, release text)
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
set jit = off
as $$
declare
  v_now timestamptz := fencepost_private.now();
  v_job record;
begin
  select p.*, n.type_id, n.priority, t.type, w.name as worker into v_job
  from job_place p
  join lane n on n.lane_id = p.lane_id
  join job_type t on t.type_id = n.type_id
  left join worker w on w.worker_id = p.worker_id
  where p.id = explain_job.job_id and exists (select from job b where b.id = explain_job.job_id)
  limit 1;
  if not found then
    perform raise_not_found(explain_job.job_id);
  end if;

  case v_job.status
    when 'pending' then
      return query select e.* from explain_pending(explain_job.job_id, v_now) as e;
    when 'running' then
      return query select e.* from explain_running(explain_job.job_id, v_now) as e;
    when 'waiting' then
      return query
      select 'waiting', concat_ws(' ', 'It stepped off its worker to wait', 'for ' || v_job.waits_for, 'until ' || v_job.available_at) || '.', v_job.since,
             case when v_job.available_at is null then '' else format('The time %s, or ', v_job.available_at) end || format('fencepost.resume(%s).', explain_job.job_id);
    when 'dead_letter' then
      return query
      select 'dead_letter', format('It failed for good in attempt %s: %s', d.attempts, d.final_error), d.failed_at,
             case when cardinality(without_late_replays(array[explain_job.job_id])) = 0
                  then format('fencepost.discard(%s) gives it up. Its run, or one around it, was cancelled or undone: it cannot be replayed.', explain_job.job_id)
                  else format('fencepost.replay(%s) tries it again, fencepost.discard(%s) gives it up. Nothing else does.', explain_job.job_id, explain_job.job_id) end
      from fencepost.dead_letter d where d.job_id = explain_job.job_id;
    else
      return query
      select v_job.status, concat_ws(' ', 'It was ' || v_job.status, 'in attempt ' || nullif(v_job.attempts, 0), 'on worker ' || v_job.worker) || '.', v_job.finished_at,
             'Nothing: it has ended. Enqueue another.'::text;
  end case;
end
$$;
comment on function fencepost.explain_job(bigint) is 'Why a job is not running now (or where it is), one row a reason, and what would release it. Raises JE002.';

create function fencepost_private.explain_running(p_job_id bigint, p_now timestamptz)
returns table (reason text, detail text, since timestamptz, release text)
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_lease  record;
  v_worker record;
begin
  select l.* into v_lease from fencepost.leases l where l.job_id = p_job_id;
  select w.* into v_worker from worker w where w.worker_id = v_lease.worker_id;
  return query
  select 'running', format('Worker %s (%s) runs attempt %s, token %s.', v_lease.worker, v_lease.worker_id, v_lease.attempt, v_lease.token), v_lease.started_at,
         format('Its end; it cannot be taken back before %s.', v_lease.leased_until);
  if v_lease.cancel_requested_at is not null then
    return query
    select 'cancel_requested', concat_ws(' ', 'Its cancellation was asked for', '(' || v_lease.cancel_reason || ')') || '.', v_lease.cancel_requested_at,
           'Its worker hears of it with the next heartbeat; however the attempt then ends, other than well, the job is cancelled.'::text;
  end if;
  if v_worker.heartbeat_at < p_now - v_worker.ttl / 2 or v_worker.status in ('lost', 'stopped') then
    return query
    select 'worker_silent', format('Its worker is %s and last gave a sign of life at %s.', v_worker.status, v_worker.heartbeat_at), v_worker.heartbeat_at,
           'maintain() takes the attempt back once the worker is lost: it then runs elsewhere, under a new token.'::text;
  end if;
  if v_lease.deadline <= p_now then
    return query select 'overdue', format('Its time was up at %s.', v_lease.deadline), v_lease.deadline, 'maintain() takes the attempt back.'::text;
  end if;
end
$$;
comment on function fencepost_private.explain_running(bigint, timestamptz) is 'explain_job for a running job.';
