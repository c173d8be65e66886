-- Puts a gate before a task that has not begun: it waits until somebody approves. Returns the approval's id.
-- A rejected or expired gate fails the task. Items of maps and undoings have no gates of their own.
-- Locks: the root run. Errors: JE002, JE003; JE004 when the task runs already, has ended, or has a gate, or its run or one
-- around it was cancelled or undoes what it did.
create function fencepost.request_approval(task_id bigint, reason text default null, expires_after interval default null)
returns bigint
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := fencepost_private.now();
  v     record;
  v_id  bigint;
begin
  perform check_length(request_approval.reason, 'the reason');
  if request_approval.expires_after <= interval '0' or request_approval.expires_after > interval '100 years' then
    perform raise_error('JE003', 'expires_after must be longer than nothing, and at most 100 years', format('received expires_after = %s', request_approval.expires_after), 'Leave it out to wait without an end.');
  end if;
  perform lock_roots(array(select t.run_id from task t where t.task_id = request_approval.task_id));
  select t.task_id, t.run_id, t.kind, t.status, t.job_id, t.gate_id, r.tenant into v
  from task t join run r on r.run_id = t.run_id where t.task_id = request_approval.task_id;
  if not found then
    perform raise_task_not_found(request_approval.task_id);
  end if;
  if v.kind in ('item', 'compensation') then
    perform raise_error('JE004', format('task %s is an %s and has no gate of its own', v.task_id, case v.kind when 'item' then 'item of a map' else 'undoing' end),
      format('received task_id = %s', v.task_id), 'Gate the map before it begins, or pause the run.');
  end if;
  if exists (select from late_tasks(array[v.task_id])) then
    perform raise_error('JE004', format('the run of task %s was cancelled or is being compensated, or one around it: it cannot be gated', v.task_id), format('received task_id = %s', v.task_id),
      'Nothing of such a run begins any more.');
  end if;
  if v.status not in ('pending', 'queued') or v.gate_id is not null
     or v.status = 'queued' and park_jobs(array[v.job_id], 'approval') = 0 and not exists (select from parked p where p.id = v.job_id) then
    perform raise_error('JE004', format('task %s %s: it cannot be gated', v.task_id, case when v.gate_id is not null then 'has a gate already' when v.status = 'queued' then 'is running' else 'is ' || v.status end),
      format('received task_id = %s', v.task_id), 'Only tasks that are pending or queued, and not claimed yet, can be gated.');
  end if;
  insert into approval (run_id, task_id, is_gate, reason, requested_at, requested_by, expires_at)
  values (v.run_id, v.task_id, true, request_approval.reason, v_now, actor(), v_now + request_approval.expires_after)
  returning approval_id into v_id;
  perform touch_roots(array[v.run_id]);
  update task t set gate_id = v_id, unmet = case when t.status = 'pending' then t.unmet + 1 else t.unmet end where t.task_id = v.task_id;
  insert into event (xid, at, tenant, kind, run_id, task_id, actor, data)
  values (xid(), v_now, v.tenant, 'approval.requested', v.run_id, v.task_id, actor(), jsonb_strip_nulls(jsonb_build_object('approval_id', v_id, 'reason', request_approval.reason, 'gate', true)));
  return v_id;
end
$$;
comment on function fencepost.request_approval(bigint, text, interval) is 'Puts a gate before a task that has not begun and returns the approval''s id. Raises JE002, JE003, JE004.';

create function fencepost_private.raise_task_not_found(p_task_id bigint)
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
begin
  perform raise_error('JE002', format('task %s does not exist', coalesce(p_task_id::text, 'null')), format('received task_id = %s', coalesce(p_task_id::text, 'null')), 'See fencepost.tasks.');
end
$$;
comment on function fencepost_private.raise_task_not_found(bigint) is 'Raises JE002 for a task id.';
