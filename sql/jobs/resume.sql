-- Brings a suspended job back: it is ready at once. `data`, if given, is recorded as the step named by waits_for
-- (or "resume"), where the next attempt finds it; a step that is recorded already stays as it is.
-- Locks: the row of suspended. Errors: JE002; JE004 when it is not suspended.
create function fencepost.resume(job_id bigint, data jsonb default null)
returns void
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_status text;
begin
  if resume_jobs(array[resume.job_id], resume.data, fencepost_private.now()) = 0 then
    v_status := job_status(resume.job_id);
    if v_status is null then
      perform raise_not_found(resume.job_id);
    end if;
    perform raise_error('JE004', format('job %s is %s, not suspended', resume.job_id, v_status), format('received job_id = %s', resume.job_id),
      'Only jobs with status waiting can be resumed.');
  end if;
end
$$;
comment on function fencepost.resume(bigint, jsonb) is 'Brings a suspended job back to work, with data for its next attempt. Raises JE002, JE004.';

-- The same, set-wise; jobs that are not suspended are passed over. Returns how many came back.
create function fencepost_private.resume_jobs(p_ids bigint[], p_data jsonb, p_now timestamptz)
returns int
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
  v_ids   bigint[];
  v_types int[];
begin
  perform lock_runs_of(p_ids);
  v_xid := xid();
  with back as (
    delete from suspended s
    using (select i.id from unnest(p_ids) as i(id) order by i.id) as given
    where s.id = given.id
    returning s.*
  ), put_ready as (
    insert into ready (id, xid, lane_id, attempts, token, ready_at)
    select b.id, v_xid, b.lane_id, b.attempts, b.token, p_now from back b order by b.id
  ), noted as (
    insert into step (job_id, name, value, token, at)
    select b.id, coalesce(b.waits_for, 'resume'), p_data, b.token, p_now from back b where p_data is not null
    on conflict on constraint step_pkey do nothing
  ), told as (
    insert into event (xid, at, tenant, kind, lane_id, job_id, run_id, task_id, attempt, token, actor, data)
    select v_xid, p_now, j.tenant, 'job.resumed', b.lane_id, b.id, j.run_id, j.task_id, b.attempts, b.token, actor(), p_data
    from back b join job j on j.id = b.id order by b.id
  ), counted as (
    insert into depth_delta (type_id, xid, waiting, ready)
    select l.type_id, v_xid, -count(*), count(*) from back b join lane l on l.lane_id = b.lane_id group by l.type_id
    returning type_id
  )
  select (select array_agg(b.id) from back b), (select array_agg(c.type_id) from counted c) into v_ids, v_types;
  perform park_paused(v_ids);
  perform wake(v_types);
  return coalesce(cardinality(v_ids), 0);
end
$$;
comment on function fencepost_private.resume_jobs(bigint[], jsonb, timestamptz) is 'Brings these suspended jobs back to work; others are passed over. Returns how many.';

-- Resumes those whose time has come, at most p_limit. A step of maintain().
-- Locks: the root runs and then the rows of what it resumes, both SKIP LOCKED: a transaction that holds one of them does
-- not stop the housekeeping.
create function fencepost_private.resume_due(p_limit int default 1000, p_now timestamptz default fencepost_private.now())
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_left bigint[] := left_alone('resume_due', p_now);
  v_due  bigint[] := array(select s.id from suspended s where s.wake_at <= p_now and not s.id = any (v_left) order by s.wake_at limit p_limit);
begin
  if cardinality(v_due) = 0 then
    return 0;
  end if;
  v_due := array(select d from unnest(v_due) as d except select b from unnest(busy_waiting_jobs(v_due)) as b);
  v_due := array(select s.id from suspended s where s.id = any (v_due) and s.wake_at <= p_now order by s.id for update skip locked);
  return isolated('resume_due', 'resume_jobs($1, null, $2)', v_due, p_now);
end
$$;
comment on function fencepost_private.resume_due(int, timestamptz) is 'Resumes up to p_limit suspended jobs whose time has come. Returns how many.';
