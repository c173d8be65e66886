-- The one place that writes the status of a run, from its numbers. The first that holds:
--   cancelled · compensated · failed (a compensation failed) · compensating · paused · failed (a task failed or was
--   cancelled singly) · completed (all ended well) · waiting (nothing queued) · running
-- Starts compensation when a failed run has nothing queued any more. Returns the ends of parent tasks whose child run
-- ended: once nothing of it is queued, so that what its parent does next does not overtake it.
create function fencepost_private.settle_runs(p_deltas fencepost_private.run_delta[], p_now timestamptz)
returns fencepost_private.task_end[]
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_changed record;
  v_ends    task_end[];
  v_undo    record;
begin
  with delta as materialized (
    select d.run_id, sum(d.pending) as pending, sum(d.queued) as queued, sum(d.waiting) as waiting, sum(d.ended_well) as ended_well,
           sum(d.failed) as failed, sum(d.cancelled) as cancelled, sum(d.undoing) as undoing, sum(d.undo_failed) as undo_failed
    from unnest(p_deltas) as d group by d.run_id order by d.run_id
  ), summed as materialized (
    select r.run_id, r.status as was, r.parent_task_id, r.tenant, v.compensates, r.cancelled_at, r.paused_at, r.compensating_at, r.finished_at,
           r.pending + d.pending as pending, r.queued + d.queued as queued, r.waiting + d.waiting as waiting, r.ended_well + d.ended_well as ended_well,
           r.failed + d.failed as failed, r.cancelled + d.cancelled as cancelled, r.undoing + d.undoing as undoing, r.undo_failed + d.undo_failed as undo_failed
    from delta d
    cross join lateral (select r.* from run r where r.run_id = d.run_id offset 0) as r
    cross join lateral (select v.compensates from workflow_version v where v.version_id = r.version_id offset 0) as v
  ), derived as materialized (
    select s.*, run_status_of(s.cancelled_at, s.compensating_at, s.paused_at, s.pending::int, s.queued::int, s.waiting::int, s.failed::int, s.cancelled::int, s.undoing::int, s.undo_failed::int) as status
    from summed s
  ), written as (
    update run r
    set pending = d.pending, queued = d.queued, waiting = d.waiting, ended_well = d.ended_well, failed = d.failed, cancelled = d.cancelled,
        undoing = d.undoing, undo_failed = d.undo_failed, status = d.status,
        finished_at = case when d.status in ('completed', 'compensated') or d.status in ('failed', 'cancelled') and d.queued = 0 and (d.waiting = 0 or d.status = 'cancelled')
                           then coalesce(r.finished_at, p_now) end
    from derived d where r.run_id = any (array[d.run_id])
    returning r.run_id, r.root_run_id, d.was, r.status, r.tenant, r.parent_task_id, r.queued, d.compensates and r.compensating_at is null and r.status = 'failed' and r.queued = 0 as must_undo
  ), told as (
    insert into event (xid, at, tenant, kind, run_id, task_id)
    select xid(), p_now, w.tenant, ('run.' || w.status)::event_kind, w.run_id, w.parent_task_id
    from written w
    where w.status is distinct from w.was and w.status in ('completed', 'failed', 'cancelled', 'compensated')
    order by w.run_id
  )
  select array_agg(distinct w.root_run_id) filter (where w.root_run_id <> w.run_id) as roots,
         array_agg(w.run_id) filter (where w.must_undo) as undo,
         array_agg(w.run_id) filter (where w.parent_task_id is not null and w.queued = 0 and w.status in ('completed', 'failed', 'cancelled', 'compensated') and not w.must_undo) as children
    into v_changed
  from written w;

  v_ends := '{}';
  if v_changed.roots is not null then
    perform touch_roots(v_changed.roots);
  end if;
  if v_changed.undo is not null then
    perform begin_compensation(u.run_id, p_now) from (select u from unnest(v_changed.undo) as u order by u desc) as u(run_id);   -- inner runs first
  end if;
  if v_changed.children is not null then
    v_ends := array(
      select row(r.parent_task_id, case r.status when 'completed' then 'completed' else 'failed' end,
                 case when r.status = 'completed' then run_output(r.run_id) end,
                 case when r.status <> 'completed' then format('child run %s ended as %s', r.run_id, r.status) end)::task_end
      from run r where r.run_id = any (v_changed.children)
      order by r.parent_task_id);
    select u.ends, u.deltas into v_undo from undo_runs(waiting_to_undo(v_changed.children), p_now) as u;
    if cardinality(v_undo.deltas) > 0 or cardinality(v_undo.ends) > 0 then
      perform advance(v_undo.ends, null, v_undo.deltas, p_now);
    end if;
  end if;
  return v_ends;
end
$$;
comment on function fencepost_private.settle_runs(fencepost_private.run_delta[], timestamptz)
  is 'Applies changes to the numbers of runs and derives their status; returns the ends of tasks whose child run ended.';

-- The cast stands at the first word, not around the whole: only so is it immutable, and the call inlined.
create function fencepost_private.run_status_of(
  p_cancelled_at timestamptz, p_compensating_at timestamptz, p_paused_at timestamptz, p_pending int, p_queued int, p_waiting int, p_failed int, p_cancelled int,
  p_undoing int, p_undo_failed int)
returns fencepost_private.run_status
language sql
immutable
return case
  when p_cancelled_at is not null then 'cancelled'::fencepost_private.run_status
  when p_compensating_at is not null and p_undoing = 0 then 'compensated'
  when p_compensating_at is not null and p_undo_failed > 0 then 'failed'
  when p_compensating_at is not null then 'compensating'
  when p_paused_at is not null then 'paused'
  when p_failed + p_cancelled > 0 then 'failed'
  when p_pending + p_queued + p_waiting = 0 then 'completed'
  when p_queued = 0 then 'waiting'
  else 'running' end;
comment on function fencepost_private.run_status_of(timestamptz, timestamptz, timestamptz, int, int, int, int, int, int, int) is 'The status of a run, from its numbers: the first rule that holds.';

-- The output of a run: the outputs of the tasks that no other waits for, by name.
create function fencepost_private.run_output(p_run_id bigint)
returns jsonb
language sql
stable
security definer
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
  select coalesce(jsonb_object_agg(d.name, coalesce(t.output, 'null')), '{}')
  from run r
  join workflow_task d on d.version_id = r.version_id and d.children = 0
  join task t on t.run_id = r.run_id and t.task_no = d.task_no and t.item is null and t.status = 'completed'
  where r.run_id = p_run_id
$$;
comment on function fencepost_private.run_output(bigint) is 'Outputs of the last tasks of a run, by name.';
