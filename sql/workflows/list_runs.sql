-- Lists runs, newest first, at most `max` (1 to 1000), with ids below `after` (the id of the last row before).
--
-- The filter is a JSON object; each key narrows:
--   workflow, status, tag, tenant, created_after, created_before
--   version          of the given workflow
--   idempotency_key  of the given workflow, and of the given tenant, else the session's
--
-- It never looks at more than 10,000 runs. When that was not enough to fill the list, the last row says so: its `cut`
-- is true, its id is how far the look went, everything else in it is null; go on with after => that id.
-- Errors: JE003.
create function fencepost.list_runs(filter jsonb default '{}', after bigint default null, max int default 50)
returns table (id bigint, workflow text, version int, status text, input jsonb, created_at timestamptz, finished_at timestamptz,
               pending_tasks int, queued_tasks int, waiting_tasks int, ended_tasks int, failed_tasks int, total_tasks int,
               tags text[], priority int, tenant text, idempotency_key text, reason text, paused_at timestamptz, cancelled_at timestamptz,
               parent_run_id bigint, parent_task_id bigint, root_run_id bigint, restarted_from bigint, cut boolean)
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
set jit = off
as $$
#variable_conflict use_column
declare
  v_filter run_filter;
  v_look   record;
begin
  v_filter := read_filter(v_filter, list_runs.filter, array['workflow', 'version', 'status', 'tag', 'tenant', 'idempotency_key', 'created_after', 'created_before'],
    'version is a whole number; created_after and created_before are times such as 2030-01-31T12:00:00Z.');
  perform check_status(v_filter.status, array['running', 'waiting', 'paused', 'completed', 'failed', 'cancelled', 'compensating', 'compensated'], 'A run');
  perform check_max(list_runs.max);
  if v_filter.workflow is null and (v_filter.version is not null or v_filter.idempotency_key is not null) then
    perform raise_error('JE003', 'version and idempotency_key of the filter need a workflow', format('received %s', list_runs.filter), 'Versions and keys belong to a workflow: name it too.');
  end if;

  v_look := bounded_look(run_source(v_filter), $query$
      join run r on r.run_id = c.id
      join workflow w on w.workflow_id = r.workflow_id
      join workflow_version v on v.version_id = r.version_id
      where ($3.workflow is null or w.name = $3.workflow)
        and ($3.version is null or v.version = $3.version)
        and ($3.status is null or r.status = $3.status::run_status)
        and ($3.tag is null or $3.tag = any (r.tags))
        and ($3.tenant is null or r.tenant = $3.tenant)
        and ($3.created_after is null or r.created_at >= $3.created_after)
        and ($3.created_before is null or r.created_at < $3.created_before)
    $query$, v_filter, list_runs.after, list_runs.max);

  return query
  select r.id, r.workflow, r.version, r.status, r.input, r.created_at, r.finished_at,
         r.pending_tasks, r.queued_tasks, r.waiting_tasks, r.ended_tasks, r.failed_tasks, r.total_tasks,
         r.tags, r.priority, r.tenant, r.idempotency_key, r.reason, r.paused_at, r.cancelled_at,
         r.parent_run_id, r.parent_task_id, r.root_run_id, r.restarted_from, false
  from fencepost.runs r
  where r.id = any (v_look.ids)
  order by r.id desc;

  if v_look.cut_at is not null then
    id := v_look.cut_at;
    cut := true;
    return next;
  end if;
end
$$;
comment on function fencepost.list_runs(jsonb, bigint, int)
  is 'Lists runs that match a filter, newest first, from below the id `after`; looks at no more than 10,000 and says with a last row when that cut it short. Raises JE003.';

-- The narrowest index that holds all runs a filter can find, as a query of their ids (run_id + 0 is what they hold).
create function fencepost_private.run_source(p_filter fencepost_private.run_filter)
returns text
language sql
immutable
set search_path = fencepost_private, pg_temp
as $$
  select format('select r.run_id%s as id from run r', case when p_filter.idempotency_key is null and coalesce(p_filter.status, p_filter.workflow) is not null then ' + 0' end) || case
    when p_filter.idempotency_key is not null then
      ' where r.tenant = coalesce($3.tenant, current_tenant()) and r.idempotency_key = $3.idempotency_key'
      ' and r.workflow_id = (select w.workflow_id from workflow w where w.name = $3.workflow)'
    when p_filter.status is not null and (p_filter.status <> 'completed' or p_filter.workflow is null) then ' where r.status = $3.status::run_status'
    when p_filter.workflow is not null then ' where r.workflow_id = (select w.workflow_id from workflow w where w.name = $3.workflow)'
    else '' end
$$;
comment on function fencepost_private.run_source(fencepost_private.run_filter) is 'SQL of the narrowest index that holds all runs a filter can find.';
