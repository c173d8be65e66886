-- Lists approvals, newest first, at most `max` (1 to 1000), with ids below `after` (the id of the last row before).
--
-- The filter is a JSON object; each key narrows:
--   status     pending, approved, rejected, expired or withdrawn
--   run_id, workflow, tenant
--
-- It never looks at more than 10,000 approvals. When that was not enough to fill the list, the last row says so: its
-- `cut` is true, its id is how far the look went, everything else in it is null; go on with after => that id.
-- Errors: JE003.
create function fencepost.list_approvals(filter jsonb default '{}', after bigint default null, max int default 50)
returns table (id bigint, run_id bigint, task text, status text, workflow text, task_id bigint, is_gate boolean, reason text,
               requested_at timestamptz, requested_by text, expires_at timestamptz, decided_at timestamptz, decided_by text,
               comment text, data jsonb, tenant text, cut boolean)
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
set jit = off
as $$
#variable_conflict use_column
declare
  v_filter approval_filter;
  v_look   record;
begin
  v_filter := read_filter(v_filter, list_approvals.filter, array['status', 'run_id', 'workflow', 'tenant'], 'run_id is the whole number of a run.');
  perform check_status(v_filter.status, array['pending', 'approved', 'rejected', 'expired', 'withdrawn'], 'An approval');
  perform check_max(list_approvals.max);

  v_look := bounded_look(
    'select a.approval_id as id from approval a' || case
      when v_filter.run_id is not null then ' where a.run_id = $3.run_id'
      when v_filter.status = 'pending' then ' where a.status = ''pending'''
      else '' end,
    $query$
      join approval a on a.approval_id = c.id
      join run r on r.run_id = a.run_id
      join workflow w on w.workflow_id = r.workflow_id
      where ($3.status is null or a.status = $3.status::approval_status)
        and ($3.workflow is null or w.name = $3.workflow)
        and ($3.tenant is null or r.tenant = $3.tenant)
    $query$, v_filter, list_approvals.after, list_approvals.max);

  return query
  select a.id, a.run_id, a.task, a.status, a.workflow, a.task_id, a.is_gate, a.reason, a.requested_at, a.requested_by,
         a.expires_at, a.decided_at, a.decided_by, a.comment, a.data, a.tenant, false
  from fencepost.approvals a
  where a.id = any (v_look.ids)
  order by a.id desc;

  if v_look.cut_at is not null then
    id := v_look.cut_at;
    cut := true;
    return next;
  end if;
end
$$;
comment on function fencepost.list_approvals(jsonb, bigint, int)
  is 'Lists approvals that match a filter, newest first, from below the id `after`; looks at no more than 10,000 and says with a last row when that cut it short. Raises JE003.';
