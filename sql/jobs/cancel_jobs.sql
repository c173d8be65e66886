-- Cancels jobs, set-wise: those that wait end at once; for those that run it is recorded, and their workers are told.
-- Jobs that are dead-lettered or have ended are passed over.
-- Locks: the rows of the places that hold them, in id order.
create function fencepost_private.cancel_jobs(p_ids bigint[], p_reason text, p_now timestamptz)
returns table (job_id bigint, verdict text)
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
  v_ended  bigint[];
  v_told   bigint;
  v_ends   task_end[];
begin
  perform lock_runs_of(p_ids);
  v_xid := xid();
  with from_ready as (
    delete from ready r where r.id = any (p_ids) returning r.id, r.lane_id, r.attempts, r.token
  ), from_delayed as (
    delete from delayed d where d.id = any (p_ids) returning d.id, d.lane_id, d.attempts, d.token
  ), from_parked as (
    delete from parked p where p.id = any (p_ids) returning p.id, p.lane_id, p.attempts, p.token
  ), from_suspended as (
    delete from suspended s where s.id = any (p_ids) returning s.id, s.lane_id, s.attempts, s.token
  ), ended as (
    select 'ready' as place, r.* from from_ready r union all select 'delayed', d.* from from_delayed d
    union all select 'parked', p.* from from_parked p union all select 'waiting', s.* from from_suspended s
  ), told as (
    insert into event (xid, at, tenant, kind, lane_id, job_id, run_id, task_id, attempt, token, actor, data)
    select v_xid, p_now, b.tenant, 'job.cancelled', e.lane_id, e.id, b.run_id, b.task_id, e.attempts, e.token, actor(),
           case when p_reason is not null then jsonb_build_object('reason', p_reason) end
    from ended e join job b on b.id = e.id order by e.id
  ), counted as (
    insert into depth_delta (type_id, xid, ready, delayed, parked, waiting)
    select l.type_id, v_xid, -count(*) filter (where e.place = 'ready'), -count(*) filter (where e.place = 'delayed'),
           -count(*) filter (where e.place = 'parked'), -count(*) filter (where e.place = 'waiting')
    from ended e join lane l on l.lane_id = e.lane_id group by l.type_id
  )
  select array_agg(e.id), array_agg(row(b.task_id, 'cancelled', null, coalesce(p_reason, 'its job was cancelled'))::task_end) filter (where b.task_id is not null)
    into v_ended, v_ends
  from ended e join job b on b.id = e.id;

  with asked as (
    update lease l set cancel_requested_at = p_now, cancel_reason = p_reason
    where l.id = any (p_ids) and l.cancel_requested_at is null
    returning l.*
  ), told as (
    insert into event (xid, at, tenant, kind, lane_id, job_id, run_id, task_id, attempt, token, worker_id, actor, data)
    select v_xid, p_now, a.tenant, 'job.cancel_requested', a.lane_id, a.id, a.run_id, a.task_id, a.attempts, a.token, a.worker_id, actor(),
           case when p_reason is not null then jsonb_build_object('reason', p_reason) end
    from asked a order by a.id
  )
  select count(pg_notify('fencepost', format('{"worker":%s,"cancel":%s}', h.worker_id, h.ids))) into v_told
  from (select a.worker_id, jsonb_agg(a.id) as ids from asked a group by a.worker_id, a.id % 16) as h
  where current_setting('fencepost.wake', true) is distinct from 'off'
    and length(h.ids::text) < 7900;      -- a longer list is heard with the next heartbeat

  perform jobs_ended(v_ends, p_now);
  return query
  select u.id, 'cancelled'::text from unnest(v_ended) as u(id)
  union all
  -- also those that had been asked before; not one that was claimed again while we looked
  select l.id, 'cancel_requested' from lease l where l.id = any (p_ids) and l.cancel_requested_at is not null;
end
$$;
comment on function fencepost_private.cancel_jobs(bigint[], text, timestamptz)
  is 'Cancels waiting jobs at once and asks running ones to stop; returns cancelled or cancel_requested for each.';
