-- Jobs of runs that are held: while their run is paused, a gate stands before their task, or their map is full.

-- Parks these jobs where they are items of maps that limit how many run at once.
create function fencepost_private.park_items(p_job_ids bigint[], p_map_ids bigint[]) returns void
language plpgsql volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
declare
  v record;
begin
  for v in
    select m.task_id, array_agg(t.job_id) as jobs
    from unnest(p_map_ids) as i(task_id)
    join task m on m.task_id = i.task_id
    join run r on r.run_id = m.run_id
    join workflow_task d on d.version_id = r.version_id and d.task_no = m.task_no and d.max_parallel is not null
    join task t on t.parent_task_id = m.task_id and t.job_id = any (p_job_ids)
    group by m.task_id order by m.task_id
  loop
    perform park_jobs(v.jobs, map_place(v.task_id));
  end loop;
end
$$;
comment on function fencepost_private.park_items(bigint[], bigint[]) is 'Parks revived items of maps with max_parallel, until there is room.';

-- A job of a paused run that became ready or delayed waits, parked, until the run is resumed. Who pauses the run later
-- must see where its jobs are by then.
create function fencepost_private.park_paused(p_job_ids bigint[]) returns void
language plpgsql volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
declare
  v_runs bigint[] := array(select distinct b.run_id from job b where b.id = any (p_job_ids) and b.run_id is not null);
begin
  if cardinality(v_runs) > 0 then
    perform touch_roots(v_runs);
    perform park_jobs(array(select b.id from job b join run r on r.run_id = b.run_id where b.id = any (p_job_ids) and r.paused_at is not null), 'run');
  end if;
end
$$;
comment on function fencepost_private.park_paused(bigint[]) is 'Parks those of these jobs whose run is paused.';

-- Moves jobs from ready and delayed to parked. One that runs, or is claimed while we look, stays. Returns how many.
create function fencepost_private.park_jobs(p_job_ids bigint[], p_for text) returns int
language plpgsql volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
declare
  v_moved int;
  v_count int := 0;
begin
  -- one may move between the two places while we look: look again, in a new statement
  for v_try in 1..20 loop
    exit when not exists (select from ready r where r.id = any (p_job_ids)) and not exists (select from delayed d where d.id = any (p_job_ids));
    with from_ready as (
      delete from ready r where r.id = any (p_job_ids) returning r.id, r.lane_id, r.attempts, r.token, null::timestamptz as due_at
    ), from_delayed as (
      delete from delayed d where d.id = any (p_job_ids) returning d.id, d.lane_id, d.attempts, d.token, d.available_at
    ), moved as (
      select true as was_ready, r.* from from_ready r union all select false, d.* from from_delayed d
    ), put as (
      insert into parked (id, lane_id, attempts, token, parked_at, waits_for, due_at)
      select m.id, m.lane_id, m.attempts, m.token, fencepost_private.now(), p_for, m.due_at from moved m
    ), counted as (
      insert into depth_delta (type_id, xid, ready, delayed, parked)
      select l.type_id, xid(), -count(*) filter (where m.was_ready), -count(*) filter (where not m.was_ready), count(*)
      from moved m join lane l on l.lane_id = m.lane_id group by l.type_id
    )
    select count(*) into v_moved from moved;
    v_count := v_count + v_moved;
  end loop;
  return v_count;
end
$$;
comment on function fencepost_private.park_jobs(bigint[], text) is 'Moves jobs from ready and delayed to parked; returns how many.';

-- Moves parked jobs back to ready and wakes who sleeps for them; those whose time has not come go back to delayed, for
-- what is left of their wait. Returns how many.
create function fencepost_private.unpark_jobs(p_job_ids bigint[]) returns int
language plpgsql volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
declare
  v_now   timestamptz := fencepost_private.now();
  v_types int[];
  v_count int;
begin
  if cardinality(p_job_ids) = 0 then
    return 0;
  end if;
  with moved as (
    delete from parked p where p.id = any (p_job_ids) returning p.*, p.due_at > v_now as is_early
  ), made_ready as (
    insert into ready (id, xid, lane_id, attempts, token, ready_at)
    select m.id, xid(), m.lane_id, m.attempts, m.token, v_now from moved m where m.is_early is not true order by m.id
  ), made_delayed as (
    insert into delayed (id, available_at, lane_id, attempts, token)
    select m.id, m.due_at, m.lane_id, m.attempts, m.token from moved m where m.is_early
  ), counted as (
    insert into depth_delta (type_id, xid, parked, ready, delayed)
    select l.type_id, xid(), -count(*), count(*) filter (where m.is_early is not true), count(*) filter (where m.is_early)
    from moved m join lane l on l.lane_id = m.lane_id group by l.type_id
    returning type_id
  )
  select (select count(*) from moved), (select array_agg(c.type_id) from counted c) into v_count, v_types;
  perform wake(v_types);
  return v_count;
end
$$;
comment on function fencepost_private.unpark_jobs(bigint[]) is 'Moves parked jobs back to ready, or to delayed where their time has not come; returns how many.';
