-- An operator changes settings of a workflow, for all its versions. null leaves a setting as it is.
--   keep_finished  how long its finished runs are kept, with their tasks, approvals, signals and idempotency keys; from
--                  nothing to 100 years, by default 7 days. What is kept longer whatever it says: see retire_runs.
-- Locks: the workflow's row. Errors: JE002; JE003 (keep_finished).
create function fencepost.configure_workflow(name text, keep_finished interval default null)
returns void
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := fencepost_private.now();
  v     workflow;
begin
  if configure_workflow.keep_finished not between interval '0' and interval '100 years' then
    perform raise_error('JE003', 'keep_finished must be an interval such as "7 days", at most 100 years', format('received keep_finished = %s', configure_workflow.keep_finished),
      'Nothing was changed.');
  end if;
  perform find_version(configure_workflow.name, null);
  select w.* into v from workflow w where w.name = configure_workflow.name for no key update;
  if coalesce(configure_workflow.keep_finished, v.keep_finished) = v.keep_finished then
    return;
  end if;
  update workflow w set keep_finished = configure_workflow.keep_finished where w.workflow_id = v.workflow_id;
  insert into event (xid, at, tenant, kind, actor, data)
  values (xid(), v_now, current_tenant(), 'operator.workflow_configured', actor(),
          jsonb_build_object('workflow', v.name, 'before', jsonb_build_object('keep_finished', v.keep_finished), 'after', jsonb_build_object('keep_finished', configure_workflow.keep_finished)));
end
$$;
comment on function fencepost.configure_workflow(text, interval) is 'Sets how long finished runs of a workflow are kept; null leaves it as it is. Raises JE002, JE003.';
