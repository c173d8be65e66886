-- Why a task is not running now, and what would let it go on. A row for each reason.
-- Errors: JE002.
create function fencepost.explain_task(run_id bigint, task text)
returns table (reason text, detail text, release text)
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v record;
begin
  select t.*, r.status as run_status, r.paused_at, r.version_id, r.reason as run_reason into v
  from run r
  join workflow_task d on d.version_id = r.version_id and d.name = explain_task.task
  join task t on t.run_id = r.run_id and t.task_no = d.task_no and t.item is null
  where r.run_id = explain_task.run_id;
  if not found then
    perform raise_error('JE002', format('run %s has no task %s', coalesce(explain_task.run_id::text, 'null'), coalesce(quote_literal(explain_task.task), 'null')),
      format('received run_id = %s, task = %s', coalesce(explain_task.run_id::text, 'null'), coalesce(explain_task.task, 'null')), 'See fencepost.tasks.');
  end if;

  if v.status in ('completed', 'skipped', 'cancelled', 'failed') then
    return query select 'it is ' || v.status, coalesce(v.error, 'since ' || v.finished_at),
      case v.status when 'failed' then format('select fencepost.replay_task(%s)', v.task_id) else null end;
    return;
  end if;
  if v.paused_at is not null then
    return query select 'its run is paused'::text, 'since ' || v.paused_at || coalesce(': ' || v.run_reason, ''), format('select fencepost.resume_run(%s)', v.run_id);
  end if;
  if v.gate_id is not null then
    return query select 'somebody must approve it first'::text, coalesce(a.reason, 'requested by ' || a.requested_by), format('select fencepost.approve(%s)', a.approval_id)
    from approval a where a.approval_id = v.gate_id;
  end if;
  if v.status = 'pending' then
    return query
    select 'it waits for ' || pd.name, 'which is ' || p.status || coalesce(': ' || p.error, ''),
           case p.status when 'failed' then format('select fencepost.replay_task(%s)', p.task_id) else format('select * from fencepost.explain_task(%s, %L)', v.run_id, pd.name) end
    from workflow_edge e
    join workflow_task pd on pd.version_id = e.version_id and pd.task_no = e.parent_no
    join task p on p.run_id = v.run_id and p.task_no = e.parent_no and p.item is null
    where e.version_id = v.version_id and e.child_no = v.task_no and not p.released
    order by e.parent_no;
  elsif v.status = 'waiting' then
    return query
    select case v.kind when 'approval' then 'it waits for a decision' when 'timer' then 'it waits for a time' when 'signal' then 'it waits for the signal ' || d.signal
                       when 'map' then 'its items are not done' else 'its child run has not ended' end,
           case v.kind when 'map' then format('%s of %s are open, %s failed', v.items_open, v.items, v.items_failed)
                       when 'workflow' then format('run %s is %s', v.child_run_id, (select c.status from run c where c.run_id = v.child_run_id))
                       else coalesce('until ' || v.due_at, 'without an end') end,
           case v.kind when 'approval' then (select format('select fencepost.approve(%s)', a.approval_id) from approval a where a.task_id = v.task_id and a.status = 'pending' and not a.is_gate)
                       when 'signal' then format('select fencepost.signal_run(%s, %L)', v.run_id, d.signal)
                       when 'map' then format('select * from fencepost.tasks where run_id = %s and item is not null and status <> ''completed''', v.run_id)
                       when 'workflow' then format('select * from fencepost.tasks where run_id = %s', v.child_run_id) end
    from workflow_task d where d.version_id = v.version_id and d.task_no = v.task_no;
  elsif v.status = 'queued' and v.gate_id is null and v.paused_at is null then
    return query select 'its job: ' || j.reason, j.detail, j.release from fencepost.explain_job(v.job_id) as j;
  end if;
end
$$;
comment on function fencepost.explain_task(bigint, text) is 'Why a task is not running now, and what would let it go on. Raises JE002.';
