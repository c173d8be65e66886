-- Begins a new run of the same version that takes over from an old one, which has ended, what had ended well there:
-- completed and skipped tasks, and failures that the run went over. Not from_task, nor a task that had not ended well, nor
-- one whose undoing had begun, whatever became of that; nor what comes after any of these: those are done again.
-- Returns the new run, linked to the old, which is left as it is.
-- Locks: the old root run. Errors: JE002 (run), JE003 (no such task); JE004 when it has not ended, or is inside another.
create function fencepost.restart_run(run_id bigint, from_task text default null)
returns bigint
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_now  timestamptz := fencepost_private.now();
  v_run  run := lock_run(restart_run.run_id);
  v_out  record;
  v_from int;
  v_redo int[];
  v_id   bigint;
begin
  if v_run.parent_task_id is not null then
    v_out := outer_task(v_run.run_id);
    perform raise_error('JE004', format('run %s is part of run %s and cannot be restarted by itself', v_run.run_id, v_out.run_id), format('received run_id = %s', v_run.run_id),
      format('Restart the run around it from the task that it carries out: fencepost.restart_run(%s, %L).', v_out.run_id, v_out.task));
  elsif v_run.finished_at is null then
    perform raise_error('JE004', format('run %s is %s and has not ended: a second one would do the same beside it', v_run.run_id, v_run.status), format('received run_id = %s', v_run.run_id),
      case when v_run.cancelled_at is null then 'Cancel it first with fencepost.cancel_run().' else 'Wait until what runs of it has stopped.' end);
  end if;
  if restart_run.from_task is not null then
    select d.task_no into v_from from workflow_task d where d.version_id = v_run.version_id and d.name = restart_run.from_task;
    if not found then
      perform raise_error('JE003', format('run %s has no task %s', v_run.run_id, quote_literal(restart_run.from_task)), format('received from_task = %s', quote_literal(restart_run.from_task)),
        coalesce(did_you_mean(restart_run.from_task, array(select d.name from workflow_task d where d.version_id = v_run.version_id)), 'Name a task of its version.'));
    end if;
  end if;
  v_redo := array(
    with recursive redo as (
      select t.task_no from task t
      where t.run_id = v_run.run_id and t.item is null
        and (t.task_no = v_from or not (t.status in ('completed', 'skipped') or t.status = 'failed' and t.released)
             or exists (select from task u where u.parent_task_id = t.task_id and u.kind = 'compensation' and u.ready_at is not null))
      union
      select e.child_no from redo r join workflow_edge e on e.version_id = v_run.version_id and e.parent_no = r.task_no
    )
    select r.task_no from redo r);

  v_id := (create_runs(v_run.workflow_id, v_run.version_id, v_run.tenant, array[v_run.input], null, v_run.tags, v_run.priority, null, v_run.run_id, v_now))[1];
  with taken as (
    update task n
    set status = o.status, input = o.input, output = o.output, error = o.error, released = true, ready_at = o.ready_at, finished_at = o.finished_at
    from task o
    where n.run_id = v_id and o.run_id = v_run.run_id and o.task_no = n.task_no and n.item is null and o.item is null and not o.task_no = any (v_redo)
    returning n.task_no
  )
  update run r set pending = r.pending - n.n, ended_well = n.n from (select count(*) as n from taken) as n where r.run_id = v_id;
  update task n set unmet = n.unmet - m.met, skipped_parents = m.skipped
  from (
    select e.child_no, count(*)::int as met, (count(*) filter (where t.status = 'skipped'))::int as skipped
    from task t join workflow_edge e on e.version_id = v_run.version_id and e.parent_no = t.task_no
    where t.run_id = v_id and t.released
    group by e.child_no
  ) as m
  where n.run_id = v_id and n.task_no = m.child_no and n.status = 'pending' and n.item is null;
  perform start_roots(array[v_id], v_now), advance(null, null, array[row(v_id, 0, 0, 0, 0, 0, 0, 0, 0)::run_delta], v_now);
  return v_id;
end
$$;
comment on function fencepost.restart_run(bigint, text) is 'Begins a new run that takes over the outputs of an old one up to a task, and returns its id. Raises JE002, JE003, JE004.';

-- The outermost run around a run, and the task of it that it is inside of; for an outermost run itself no task.
create function fencepost_private.outer_task(p_run_id bigint, out run_id bigint, out task text)
language plpgsql
stable
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
begin
  with recursive around as (
    select r.run_id, r.version_id, r.parent_task_id, null::text as task from run r where r.run_id = p_run_id
    union all
    select r.run_id, r.version_id, r.parent_task_id, d.name
    from around a
    join task t on t.task_id = a.parent_task_id
    join run r on r.run_id = t.run_id
    join workflow_task d on d.version_id = r.version_id and d.task_no = t.task_no
  )
  select a.run_id, a.task into run_id, task from around a where a.parent_task_id is null;
end
$$;
comment on function fencepost_private.outer_task(bigint) is 'The outermost run around a run, and the task of it that this run is inside of.';
