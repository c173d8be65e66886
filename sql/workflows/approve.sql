-- Decides an approval: approved. The decision becomes the output of an approval task; a gate opens.
-- Locks: the root run, the approval. Errors: JE002, JE003 (comment or decided_by too long), JE006 (data of more than 1 MiB);
-- JE004 when it was decided before, or its time is over (in a paused run no time is), or its run has ended.
create function fencepost.approve(approval_id bigint, decided_by text default null, comment text default null, data jsonb default null)
returns void
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
begin
  perform decide(approve.approval_id, 'approved', coalesce(approve.decided_by, actor()), approve.comment, approve.data, fencepost_private.now());
end
$$;
comment on function fencepost.approve(bigint, text, text, jsonb) is 'Approves: the run goes on. One decision only; a second raises JE004. Raises JE002, JE003, JE006.';

-- One decision, by whomever: approved, rejected or expired.
create function fencepost_private.decide(p_approval_id bigint, p_status fencepost_private.approval_status, p_by text, p_comment text, p_data jsonb, p_now timestamptz)
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set timezone = 'UTC'
as $$
declare
  v      record;
  v_good boolean;
  v_why  text := format('%s by %s%s', p_status, p_by, ': ' || p_comment);
begin
  perform check_length(p_by, 'decided_by', 200), check_length(p_comment, 'the comment'), check_size(p_data, 'the data of a decision');
  perform lock_roots(array(select a.run_id from approval a where a.approval_id = p_approval_id));
  select a.approval_id, a.status, a.task_id, a.run_id, a.is_gate, a.expires_at, r.tenant, r.paused_at, t.status as task_status, t.job_id, d.on_expiry, d.on_reject, d.name into v
  from approval a
  join run r on r.run_id = a.run_id
  join task t on t.task_id = a.task_id
  join workflow_task d on d.version_id = r.version_id and d.task_no = t.task_no
  where a.approval_id = p_approval_id;
  if not found then
    perform raise_error('JE002', format('approval %s does not exist', coalesce(p_approval_id::text, 'null')), format('received approval_id = %s', coalesce(p_approval_id::text, 'null')), 'See fencepost.approvals.');
  elsif v.status <> 'pending' then
    perform raise_error('JE004', format('approval %s is %s already', p_approval_id, v.status), format('received the decision %s', p_status), 'A decision is made once.');
  elsif p_status <> 'expired' and v.expires_at <= p_now and v.paused_at is null then
    perform raise_error('JE004', format('approval %s has expired', p_approval_id), format('it expired at %s, it is %s', v.expires_at, p_now),
      'The housekeeping does next what its definition says of that; fencepost.replay_task() asks for it again.');
  end if;

  perform touch_roots(array[v.run_id]);
  update approval a set status = p_status, decided_at = p_now, decided_by = p_by, comment = p_comment, data = p_data where a.approval_id = p_approval_id;
  insert into event (xid, at, tenant, kind, run_id, task_id, actor, data)
  values (xid(), p_now, v.tenant, 'approval.decided', v.run_id, v.task_id, p_by,
          with_data(jsonb_build_object('approval_id', p_approval_id, 'task', v.name, 'decision', p_status, 'comment', p_comment), p_data));

  v_good := p_status = 'approved' or p_status = 'expired' and v.on_expiry = 'approve';
  if v.is_gate then
    perform open_gate(v.task_id, v_good, v_why, p_now);
  else
    perform advance(array[row(v.task_id,
      case when v_good then 'completed'
           when p_status = 'expired' and v.on_expiry = 'fail' then 'failed'
           when v.on_reject = 'skip' then 'skipped'
           when v.on_reject = 'continue' then 'completed'
           else 'failed' end,
      with_data(jsonb_build_object('approved', v_good, 'decision', p_status, 'decided_by', p_by, 'comment', p_comment, 'decided_at', p_now), p_data),
      case when not v_good then v_why end)::task_end], null, null, p_now);
  end if;
end
$$;
comment on function fencepost_private.decide(bigint, fencepost_private.approval_status, text, text, jsonb, timestamptz) is 'Writes a decision and moves its run on. Raises JE002, JE003, JE004, JE006.';

-- A decision without what is not known, and with the data that came with it as it is.
create function fencepost_private.with_data(p_decision jsonb, p_data jsonb)
returns jsonb
language sql
immutable
set search_path = fencepost_private, pg_temp
as $$
  select jsonb_strip_nulls(p_decision) || case when p_data is null then '{}' else jsonb_build_object('data', p_data) end
$$;
comment on function fencepost_private.with_data(jsonb, jsonb) is 'A decision as JSON, with its data.';

-- Lets the task behind a gate go on, or fails it.
create function fencepost_private.open_gate(p_task_id bigint, p_good boolean, p_why text, p_now timestamptz)
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
declare
  v record;
begin
  update task t set gate_id = null, unmet = case when t.status = 'pending' then t.unmet - 1 else t.unmet end
  from run r
  where t.task_id = p_task_id and r.run_id = t.run_id
  returning t.task_id, t.status, t.unmet, t.job_id, r.paused_at into v;
  if not p_good then
    perform advance(array[row(p_task_id, 'failed', null, p_why)::task_end], null, null, p_now);
    if v.status = 'queued' then
      perform cancel_jobs(array[v.job_id], p_why, p_now);
    end if;
  elsif v.status = 'queued' and v.paused_at is null then
    perform unpark_jobs(array[v.job_id]);
  elsif v.status = 'pending' and v.unmet = 0 then
    perform advance(null, array[p_task_id], null, p_now);
  end if;
end
$$;
comment on function fencepost_private.open_gate(bigint, boolean, text, timestamptz) is 'Opens or shuts the gate before a task.';
