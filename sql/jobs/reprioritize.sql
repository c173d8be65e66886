-- Gives a job that waits another priority. It joins the end of its new line.
-- Locks: the row of the place that holds it. Errors: JE002, JE003 (priority), JE004 when it runs or has ended.
create function fencepost.reprioritize(job_id bigint, priority int)
returns void
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
#variable_conflict use_column
declare
  v_now    timestamptz := fencepost_private.now();
  v_place  record;
  v_lane   int;
  v_status text;
begin
  -- lock it where it is, so that it does not move meanwhile
  for v_try in 1..20 loop
    select p.lane_id, p.attempts, p.token, p.place into v_place from lock_place(reprioritize.job_id) as p;
    exit when v_place.place is not null;
    v_status := job_status(reprioritize.job_id);
    exit when v_status is null or v_status not in ('pending', 'waiting');
  end loop;
  if v_place.place is null and v_status is null then
    perform raise_not_found(reprioritize.job_id);
  elsif v_place.place is null then
    perform raise_error('JE004', format('job %s is %s: its priority cannot be changed', reprioritize.job_id, v_status), format('received job_id = %s', reprioritize.job_id),
      'Only jobs that wait can be moved.');
  end if;

  select e.lane_id into v_lane
  from lane l join job_type t on t.type_id = l.type_id
  cross join lateral ensure_lane(t.type, reprioritize.priority) as e
  where l.lane_id = v_place.lane_id;
  if v_lane = v_place.lane_id then
    return;
  end if;

  -- a ready row is never updated: it is deleted and inserted under our transaction, so that no watermark passes it
  with moved as (
    delete from ready r where r.id = reprioritize.job_id returning r.*
  )
  insert into ready (id, xid, lane_id, attempts, token, ready_at)
  select m.id, xid(), v_lane, m.attempts, m.token, m.ready_at from moved m;
  update delayed d set lane_id = v_lane where d.id = reprioritize.job_id;
  update parked p set lane_id = v_lane where p.id = reprioritize.job_id;
  update suspended s set lane_id = v_lane where s.id = reprioritize.job_id;

  insert into event (xid, at, tenant, kind, lane_id, job_id, run_id, task_id, attempt, token, actor, data)
  select xid(), v_now, b.tenant, 'job.reprioritized', v_lane, b.id, b.run_id, b.task_id, v_place.attempts, v_place.token, actor(),
         jsonb_build_object('priority', reprioritize.priority)
  from job b where b.id = reprioritize.job_id;
  perform wake(array(select l.type_id from lane l where l.lane_id = v_lane));
end
$$;
comment on function fencepost.reprioritize(bigint, int) is 'Gives a waiting job another priority, at the end of its new line. Raises JE002, JE003, JE004.';

-- Locks the row of the waiting place that holds a job, if one does.
create function fencepost_private.lock_place(p_job_id bigint, out place text, out lane_id int, out attempts int, out token int)
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
begin
  select 'ready', r.lane_id, r.attempts, r.token into place, lane_id, attempts, token from ready r where r.id = p_job_id for update;
  if found then return; end if;
  select 'delayed', d.lane_id, d.attempts, d.token into place, lane_id, attempts, token from delayed d where d.id = p_job_id for update;
  if found then return; end if;
  select 'suspended', s.lane_id, s.attempts, s.token into place, lane_id, attempts, token from suspended s where s.id = p_job_id for update;
  if found then return; end if;
  select 'parked', p.lane_id, p.attempts, p.token into place, lane_id, attempts, token from parked p where p.id = p_job_id for update;
end
$$;
comment on function fencepost_private.lock_place(bigint) is 'Locks the row of ready, delayed, suspended or parked that holds a job, and returns it; nulls when none does.';
