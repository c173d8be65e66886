-- Jobs that come back from the dead, and what lives again with them: their tasks, the maps and the runs around those.

-- Jobs that came back from the dead: their tasks are queued again, their maps and runs live again. Items wait, parked,
-- for room in their map.
-- Errors: JE004 when the run, or one around it, was cancelled or has begun to undo what it did.
create function fencepost_private.jobs_revived(p_job_ids bigint[], p_now timestamptz) returns void
language plpgsql volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
declare
  v_deltas run_delta[];
  v_maps   bigint[];
  v_more   record;
begin
  perform refuse_late_replay(p_job_ids);
  with back as (
    update task t set status = 'queued', error = null, finished_at = null
    from job b
    where b.id = any (p_job_ids) and t.task_id = b.task_id and t.status = 'failed'
    returning t.run_id, t.kind, t.parent_task_id, t.task_no, t.released
  ), maps as (
    update task m
    set items_open = m.items_open + n.n, items_failed = m.items_failed - n.n, status = 'waiting', error = null, finished_at = null
    from (select b.parent_task_id, count(*)::int as n from back b where b.kind = 'item' group by b.parent_task_id) as n,
         task before
    where m.task_id = n.parent_task_id and before.task_id = m.task_id
    returning m.task_id, m.run_id, m.released, before.status as was
  )
  select coalesce(array_agg(d.delta), '{}'), array(select m.task_id from maps m order by m.task_id) into v_deltas, v_maps
  from (
    select row(b.run_id, 0, count(*), 0, -count(*) filter (where b.kind not in ('item', 'compensation') and b.released), -count(*) filter (where b.kind not in ('item', 'compensation') and not b.released), 0,
               0, -count(*) filter (where b.kind = 'compensation'))::run_delta as delta
    from back b group by b.run_id
    union all
    select row(m.run_id, 0, 0, 1, case when m.released then -1 else 0 end, case when m.released then 0 else -1 end, 0, 0, 0)::run_delta from maps m where m.was = 'failed'
  ) as d;
  if cardinality(v_deltas) = 0 then
    return;
  end if;
  perform revive_parents(array(select distinct d.run_id from unnest(v_deltas) as d), p_now);
  perform advance(null, null, v_deltas, p_now);
  perform park_items(p_job_ids, v_maps), park_paused(p_job_ids);
  select i.ends, i.deltas into v_more from start_items(v_maps, p_now) as i;
  perform advance(v_more.ends, null, v_more.deltas, p_now);
end
$$;
comment on function fencepost_private.jobs_revived(bigint[], timestamptz) is 'Called by replay with the jobs that live again: their tasks, maps and runs live again too. Raises JE004.';

-- Raises JE004 when one of these jobs cannot live again: see late_replays.
create function fencepost_private.refuse_late_replay(p_job_ids bigint[]) returns void
language plpgsql volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v record;
begin
  select l.* into v from late_replays(p_job_ids) as l limit 1;
  if found then
    perform raise_error('JE004', format('run %s is %s: task %s cannot be replayed', v.run_id, v.state, v.task_id), format('received the job of task %s', v.task_id),
      'Start a new run with fencepost.restart_run().');
  end if;
end
$$;
comment on function fencepost_private.refuse_late_replay(bigint[]) is 'Raises JE004 for a job whose run, or a run around it, is cancelled or being compensated.';

-- Those of these jobs whose run cannot live again: it, or one around it (run_id names which), was cancelled or is undoing
-- what it did. An undoing itself can be replayed also then.
create function fencepost_private.late_replays(p_job_ids bigint[])
returns table (job_id bigint, task_id bigint, run_id bigint, state text)
language plpgsql volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
#variable_conflict use_column
begin
  return query
  with recursive around as (
    select i.id as job_id, t.task_id, t.kind = 'compensation' as is_undoing, r.run_id, r.parent_task_id, r.cancelled_at is not null as cancelled, r.compensating_at is not null as compensating
    from unnest(p_job_ids) as i(id)
    cross join lateral (select b.task_id from job b where b.id = i.id offset 0) as b
    cross join lateral (select t.* from task t where t.task_id = b.task_id offset 0) as t
    cross join lateral (select r.* from run r where r.run_id = t.run_id offset 0) as r
    union
    select a.job_id, a.task_id, a.is_undoing, r.run_id, r.parent_task_id, r.cancelled_at is not null and not a.is_undoing, r.compensating_at is not null
    from around a
    cross join lateral (select t.run_id from task t where t.task_id = a.parent_task_id offset 0) as t
    cross join lateral (select r.* from run r where r.run_id = t.run_id offset 0) as r
  )
  select a.job_id, a.task_id, a.run_id, case when a.cancelled then 'cancelled' else 'being compensated' end
  from around a where a.cancelled or a.compensating and not a.is_undoing;
end
$$;
comment on function fencepost_private.late_replays(bigint[]) is 'Those of these jobs that cannot be replayed, because their run or one around it is cancelled or being compensated.';

-- Those of these jobs that can be replayed, as far as their runs go, in id order.
create function fencepost_private.without_late_replays(p_job_ids bigint[])
returns bigint[]
language sql
volatile
set search_path = fencepost_private, pg_temp
as $$
  select array(select i from unnest(p_job_ids) as i except select l.job_id from late_replays(p_job_ids) as l order by 1)
$$;
comment on function fencepost_private.without_late_replays(bigint[]) is 'Those of these jobs that can be replayed, as far as their runs go.';

-- A child run that lives again brings its parent task back from failed to waiting, and so on outwards.
create function fencepost_private.revive_parents(p_run_ids bigint[], p_now timestamptz) returns void
language plpgsql volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
declare
  v_deltas run_delta[];
begin
  with back as (
    update task t set status = 'waiting', error = null, finished_at = null
    from run r
    where r.run_id = any (p_run_ids) and t.task_id = r.parent_task_id and t.status = 'failed'
      and not exists (select from run o where o.run_id = t.run_id and (o.cancelled_at is not null or o.compensating_at is not null))
    returning t.run_id, t.released
  )
  select coalesce(array_agg(row(b.run_id, 0, 0, 1, case when b.released then -1 else 0 end, case when b.released then 0 else -1 end, 0, 0, 0)::run_delta), '{}') into v_deltas from back b;
  if cardinality(v_deltas) > 0 then
    perform revive_parents(array(select distinct d.run_id from unnest(v_deltas) as d), p_now);
    perform advance(null, null, v_deltas, p_now);
  end if;
end
$$;
comment on function fencepost_private.revive_parents(bigint[], timestamptz) is 'Brings tasks whose child run lives again back to waiting.';
