-- Gives a dead letter up for good: it ends as discarded, keeps its history, and is removed like any finished job.
-- Locks: the dead letter. Errors: JE002; JE004 when the job is not dead-lettered.
create function fencepost.discard(job_id bigint, reason text default null)
returns void
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
begin
  if discard_jobs(array[discard.job_id], discard.reason) = 0 then
    perform raise_not_dead(discard.job_id, 'discarded');
  end if;
end
$$;
comment on function fencepost.discard(bigint, text) is 'Gives a dead letter up for good. Raises JE002, JE004.';

-- The same, set-wise; jobs that are not dead-lettered are passed over. Returns how many were discarded.
create function fencepost_private.discard_jobs(p_ids bigint[], p_reason text)
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
  v_now timestamptz := fencepost_private.now();
  v_xid bigint;
  v_ids bigint[];
begin
  perform lock_runs_of(p_ids);
  v_xid := xid();
  with gone as (
    delete from dead_letter z
    using (select i.id from unnest(p_ids) as i(id) order by i.id) as given
    where z.id = given.id
    returning z.*
  ), told as (
    insert into event (xid, at, tenant, kind, lane_id, job_id, run_id, task_id, attempt, token, actor, data)
    select v_xid, v_now, g.tenant, 'job.discarded', g.lane_id, g.id, j.run_id, j.task_id, g.attempts, g.token, actor(),
           jsonb_strip_nulls(jsonb_build_object('reason', p_reason, 'final_error', g.final_error))
    from gone g join job j on j.id = g.id order by g.id
  ), counted as (
    insert into depth_delta (type_id, xid, dead_letter)
    select l.type_id, v_xid, -count(*) from gone g join lane l on l.lane_id = g.lane_id group by l.type_id
  )
  select array_agg(g.id) into v_ids from gone g;
  perform touch_roots(array(select distinct b.run_id from job b where b.id = any (v_ids) and b.run_id is not null));
  return coalesce(cardinality(v_ids), 0);
end
$$;
comment on function fencepost_private.discard_jobs(bigint[], text) is 'Gives these dead letters up; others are passed over. Returns how many.';
