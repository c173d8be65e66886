-- Gives attempts back unstarted: the jobs are ready at once, for anyone, and the attempts do not count.
-- Stale pairs are passed over. Locks: the leases, in id order. Errors: JE003.
create function fencepost.release_many(job_ids bigint[], tokens int[])
returns table (job_id bigint, token int)
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_now   timestamptz := fencepost_private.now();
  v_xid   bigint;
  v_done  bigint[];
  v_marks int[];
  v_over  task_end[];
  v_back  bigint[];
  v_types int[];
begin
  perform check_pairs(release_many.job_ids, release_many.tokens, 'release_many');
  if coalesce(cardinality(release_many.job_ids), 0) = 0 then
    return;
  end if;
  perform lock_runs_of_leases(release_many.job_ids);
  v_xid := xid();
  with ended as (
    delete from lease l
    using (select u.id, u.token from unnest(release_many.job_ids, release_many.tokens) as u(id, token) order by u.id) as given
    where l.id = given.id and l.token = given.token
    returning l.*
  ), put_ready as (
    insert into ready (id, xid, lane_id, attempts, token, ready_at)
    select e.id, v_xid, e.lane_id, e.attempts - 1, e.token, e.ready_at from ended e where e.cancel_requested_at is null order by e.id
  ), told as (
    insert into event (xid, at, tenant, kind, outcome, lane_id, job_id, run_id, task_id, attempt, token, worker_id, ready_at, started_at, data)
    select v_xid, v_now, e.tenant,
           (case when e.cancel_requested_at is null then 'job.released' else 'job.cancelled' end)::event_kind,
           (case when e.cancel_requested_at is null then 'released' else 'cancelled' end)::attempt_outcome,
           e.lane_id, e.id, e.run_id, e.task_id, e.attempts, e.token, e.worker_id, e.ready_at, e.started_at,
           case when e.cancel_reason is not null then jsonb_build_object('reason', e.cancel_reason) end
    from ended e order by e.id
  ), counted as (
    insert into depth_delta (type_id, xid, running, ready)
    select l.type_id, v_xid, -count(*), count(*) filter (where e.cancel_requested_at is null)
    from ended e join lane l on l.lane_id = e.lane_id group by l.type_id
    returning type_id
  )
  select array_agg(e.id), array_agg(e.token), array_agg(row(e.task_id, 'cancelled', null, e.cancel_reason)::task_end) filter (where e.cancel_requested_at is not null and e.task_id is not null),
         array_agg(e.id) filter (where e.cancel_requested_at is null and e.run_id is not null),
         (select array_agg(c.type_id) from counted c)
    into v_done, v_marks, v_over, v_back, v_types
  from ended e;
  perform jobs_ended(v_over, v_now);
  if v_back is not null then
    perform park_paused(v_back);
  end if;
  perform wake(v_types);
  return query select u.id, u.token from unnest(v_done, v_marks) as u(id, token);
end
$$;
comment on function fencepost.release_many(bigint[], int[])
  is 'Gives attempts back unstarted, without counting them; returns the accepted ones. Raises JE003.';
