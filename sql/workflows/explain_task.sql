-- Why a task is not running now, and what would let it go on. A row for each reason; of a task that is being undone, a row
-- more for its undoing.
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
      case v.status when 'failed' then remedy_of(v.task_id) end;
    return query select u.reason, u.detail, u.release from explain_undoing(v.task_id) as u;
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
           coalesce(case p.status when 'failed' then remedy_of(p.task_id) end, format('select * from fencepost.explain_task(%s, %L)', v.run_id, pd.name))
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

-- The call that tries a failed task again: of itself, or of the outermost run from there when it cannot be by itself; null
-- as long as neither is possible.
create function fencepost_private.remedy_of(p_task_id bigint)
returns text
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
declare
  v record;
begin
  if exists (select from retryable(array[p_task_id])) then
    return format('select fencepost.replay_task(%s)', p_task_id);
  end if;
  select o.run_id, coalesce(o.task, d.name) as task into v
  from task t
  join run r on r.run_id = t.run_id
  join workflow_task d on d.version_id = r.version_id and d.task_no = t.task_no
  cross join lateral outer_task(t.run_id) as o
  join run root on root.run_id = o.run_id
  where t.task_id = p_task_id and root.finished_at is not null;
  return case when found then format('select fencepost.restart_run(%s, %L)', v.run_id, v.task) end;
end
$$;
comment on function fencepost_private.remedy_of(bigint) is 'The call that tries a failed task again, or null.';

-- How it stands with the undoing of a task, if it is being undone or was.
create function fencepost_private.explain_undoing(p_task_id bigint)
returns table (reason text, detail text, release text)
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v record;
begin
  select u.task_id, u.status, u.error, u.finished_at, u.job_id, d.compensate, r.run_id, r.paused_at, r.reason as run_reason into v
  from task u
  join run r on r.run_id = u.run_id
  join workflow_task d on d.version_id = r.version_id and d.task_no = u.task_no
  where u.parent_task_id = p_task_id and u.kind = 'compensation';
  if not found then
    return;
  elsif v.status = 'completed' then
    return query select 'it was undone', format('by %s, since %s', v.compensate, v.finished_at), null::text;
  elsif v.status in ('failed', 'cancelled') then
    return query select format('its undoing by %s is %s', v.compensate, v.status), coalesce(v.error, 'since ' || v.finished_at),
      case when exists (select from retryable(array[v.task_id])) then format('select fencepost.replay_task(%s)', v.task_id) end;
  elsif v.paused_at is not null then
    return query select 'its run is paused'::text, 'since ' || v.paused_at || coalesce(': ' || v.run_reason, ''), format('select fencepost.resume_run(%s)', v.run_id);
  elsif v.status = 'queued' then
    return query select format('its undoing by %s: %s', v.compensate, j.reason), j.detail, j.release from fencepost.explain_job(v.job_id) as j;
  else
    return query
    select format('its undoing by %s waits', v.compensate), coalesce('for that of ' || o.name || ', which is ' || o.status || coalesce(': ' || o.error, ''), 'for runs inside of its run to end'),
           coalesce('select * from fencepost.explain_task(' || v.run_id || ', ' || quote_literal(o.name) || ')', format('select * from fencepost.runs where root_run_id = (select root_run_id from fencepost.runs where id = %s)', v.run_id))
    from (select) as nothing
    left join lateral (
      select d.name, u.status, u.error
      from task u join run r on r.run_id = u.run_id join workflow_task d on d.version_id = r.version_id and d.task_no = u.task_no
      where u.run_id = v.run_id and u.kind = 'compensation' and u.status in ('queued', 'failed', 'cancelled')
      order by u.task_no desc limit 1
    ) as o on true;
  end if;
end
$$;
comment on function fencepost_private.explain_undoing(bigint) is 'How it stands with the undoing of a task, and what would let it go on.';
