-- Returns a dead letter to work: it is ready at once, its attempts start again at 1, its token goes on growing.
-- Nothing else ever does. The history stays.
-- Locks: the dead letter. Errors: JE002; JE004 when the job is not dead-lettered.
create function fencepost.replay(job_id bigint)
returns void
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
begin
  if replay_jobs(array[replay.job_id]) = 0 then
    perform raise_not_dead(replay.job_id, 'replayed');
  end if;
end
$$;
comment on function fencepost.replay(bigint) is 'Returns a dead letter to work, with its attempts reset. Raises JE002, JE004.';

-- The same, set-wise; jobs that are not dead-lettered are passed over, and with p_living_only so are those of runs that
-- cannot live again. Returns how many were replayed.
create function fencepost_private.replay_jobs(p_ids bigint[], p_living_only boolean default false)
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
  v_now   timestamptz := fencepost_private.now();
  v_xid   bigint;
  v_ids   bigint[];
  v_types int[];
begin
  perform lock_runs_of(p_ids);
  if p_living_only then
    p_ids := without_late_replays(p_ids);
  end if;
  v_xid := xid();
  with back as (
    delete from dead_letter z
    using (select i.id from unnest(p_ids) as i(id) order by i.id) as given
    where z.id = given.id
    returning z.*
  ), put_ready as (
    insert into ready (id, xid, lane_id, attempts, token, ready_at)
    select b.id, v_xid, b.lane_id, 0, b.token, v_now from back b order by b.id
  ), told as (
    insert into event (xid, at, tenant, kind, lane_id, job_id, run_id, task_id, attempt, token, actor, data)
    select v_xid, v_now, b.tenant, 'job.replayed', b.lane_id, b.id, j.run_id, j.task_id, b.attempts, b.token, actor(),
           jsonb_build_object('final_error', b.final_error, 'failed_at', b.failed_at)
    from back b join job j on j.id = b.id order by b.id
  ), counted as (
    insert into depth_delta (type_id, xid, dead_letter, ready)
    select l.type_id, v_xid, -count(*), count(*) from back b join lane l on l.lane_id = b.lane_id group by l.type_id
    returning type_id
  )
  select (select array_agg(b.id) from back b), (select array_agg(c.type_id) from counted c) into v_ids, v_types;
  perform jobs_revived(v_ids, v_now);
  perform wake(v_types);
  return coalesce(cardinality(v_ids), 0);
end
$$;
comment on function fencepost_private.replay_jobs(bigint[], boolean) is 'Returns these dead letters to work; others are passed over. Returns how many.';

create function fencepost_private.raise_not_dead(p_job_id bigint, p_what text)
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_status text := job_status(p_job_id);
begin
  if v_status is null then
    perform raise_not_found(p_job_id);
  end if;
  perform raise_error('JE004', format('job %s is %s and cannot be %s', p_job_id, v_status, p_what), format('received job_id = %s', p_job_id),
    format('Only dead letters can be %s: see fencepost.dead_letter.', p_what));
end
$$;
comment on function fencepost_private.raise_not_dead(bigint, text) is 'Raises JE004 (or JE002) for a job that is not a dead letter.';
