-- Moves a run to another version of its workflow. Tasks are matched by name. Those that have begun must exist there with
-- the same kind and type; those that have not begun take the new definition, new ones are added, and ones that are gone
-- are dropped, with the gates that were put before them. Returns a row for each task that changes; with dry_run nothing
-- is done.
-- Locks: the root run. Errors: JE002; JE003 without a version, or when the run's input does not fit its schema; JE004 when the
-- run has ended or a task that has begun does not fit.
create function fencepost.migrate_run(run_id bigint, to_version int, dry_run boolean default false)
returns table (task text, change text)
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_now     timestamptz := fencepost_private.now();
  v_run     run := lock_run(migrate_run.run_id);
  v_version record;
  v_bad     record;
  v_problem text;
begin
  if migrate_run.to_version is null then
    perform raise_error('JE003', 'a version is needed', 'received to_version = null', 'Name the version: see fencepost.workflow_versions.');
  end if;
  select f.version_id, f.version, f.definition -> 'tasks' as tasks, f.definition -> 'input' as input into v_version from workflow w cross join lateral find_version(w.name, migrate_run.to_version) as f where w.workflow_id = v_run.workflow_id;
  if v_run.status in ('completed', 'cancelled', 'compensating', 'compensated') or v_run.compensating_at is not null then
    perform raise_error('JE004', format('run %s is %s and cannot change its version', v_run.run_id, v_run.status), format('received run_id = %s', v_run.run_id), 'Use restart_run() or start a new run.');
  end if;
  v_problem := schema_problem(v_version.input, v_run.input, 'input');
  if v_problem is not null then
    perform raise_error('JE003', format('the input of run %s does not fit the schema of version %s', v_run.run_id, v_version.version), v_problem, 'Start a new run with another input.');
  end if;
  select o.name, t.status, n.name is null as is_gone into v_bad
  from task t
  join workflow_task o on o.version_id = v_run.version_id and o.task_no = t.task_no
  left join workflow_task n on n.version_id = v_version.version_id and n.name = o.name
  where t.run_id = v_run.run_id and t.item is null and t.status <> 'pending'
    and (n.name is null or n.kind <> o.kind or n.type is distinct from o.type)
  limit 1;
  if found then
    perform raise_error('JE004', format('task %s is %s and %s in version %s', v_bad.name, v_bad.status, case when v_bad.is_gone then 'does not exist' else 'is another kind of task' end, migrate_run.to_version),
      format('run %s', v_run.run_id), 'Tasks that have begun must exist in the new version with the same kind and type.');
  end if;

  return query
  select coalesce(n.name, o.name), case when o.name is null then 'added' when n.name is null then 'dropped' else 'changed' end
  from (select t.key as name, t.value as spec from workflow_version v cross join lateral jsonb_each(v.definition -> 'tasks') as t where v.version_id = v_run.version_id) as o
  full join (select t.key as name, t.value as spec from jsonb_each(v_version.tasks) as t) as n on n.name = o.name
  where n.spec is distinct from o.spec
  order by 1;
  if migrate_run.dry_run or v_version.version_id = v_run.version_id then
    return;
  end if;

  with dropped as (
    delete from task t
    where t.run_id = v_run.run_id and t.status = 'pending' and t.item is null
      and not exists (select from workflow_task o join workflow_task n on n.version_id = v_version.version_id and n.name = o.name
                      where o.version_id = v_run.version_id and o.task_no = t.task_no)
    returning t.task_id
  )
  delete from approval a using dropped d where a.task_id = d.task_id;
  -- numbers change place: move them out of the way first, so that the unique index holds at every row
  update task t set task_no = -n.task_no - 1
  from workflow_task o join workflow_task n on n.version_id = v_version.version_id and n.name = o.name
  where t.run_id = v_run.run_id and o.version_id = v_run.version_id and o.task_no = t.task_no;
  update task t set task_no = -t.task_no - 1 where t.run_id = v_run.run_id and t.task_no < 0;
  update task t set kind = d.kind from workflow_task d
  where t.run_id = v_run.run_id and t.item is null and t.status = 'pending' and d.version_id = v_version.version_id and d.task_no = t.task_no;
  insert into task (run_id, task_no, kind, status)
  select v_run.run_id, d.task_no, d.kind, 'pending' from workflow_task d
  where d.version_id = v_version.version_id and not exists (select from task t where t.run_id = v_run.run_id and t.task_no = d.task_no and t.item is null)
  order by d.task_no;
  update task t
  set unmet = m.unmet + case when t.gate_id is null then 0 else 1 end, skipped_parents = m.skipped
  from workflow_task d
  cross join lateral (
    select count(*) filter (where not p.released)::int as unmet, count(*) filter (where p.status = 'skipped')::int as skipped
    from workflow_edge e join task p on p.run_id = v_run.run_id and p.task_no = e.parent_no and p.item is null
    where e.version_id = v_version.version_id and e.child_no = d.task_no
  ) as m
  where t.run_id = v_run.run_id and t.item is null and t.status = 'pending' and d.version_id = v_version.version_id and d.task_no = t.task_no;
  update run r set version_id = v_version.version_id, migrated_at = v_now, pending = (select count(*) from task t where t.run_id = v_run.run_id and t.status = 'pending' and t.item is null)
  where r.run_id = v_run.run_id;
  insert into event (xid, at, tenant, kind, run_id, actor, data)
  select xid(), v_now, v_run.tenant, 'run.migrated', v_run.run_id, actor(), jsonb_build_object('from', o.version, 'to', v_version.version)
  from workflow_version o where o.version_id = v_run.version_id;
  perform start_roots(array[v_run.run_id], v_now), advance(null, null, array[row(v_run.run_id, 0, 0, 0, 0, 0, 0, 0, 0)::run_delta], v_now);
end
$$;
comment on function fencepost.migrate_run(bigint, int, boolean) is 'Moves a run to another version of its workflow and returns what changes; dry_run only looks. Raises JE002, JE003, JE004.';
