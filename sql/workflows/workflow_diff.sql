-- What differs between two versions of a workflow: a row for each task and key. Errors: JE002.
create function fencepost.workflow_diff(name text, from_version int, to_version int)
returns table (task text, key text, before jsonb, after jsonb)
language plpgsql
stable
security definer
set search_path = fencepost_private, pg_temp
as $$
#variable_conflict use_column
declare
  v_a jsonb := (select f.definition from find_version(workflow_diff.name, workflow_diff.from_version) as f);
  v_b jsonb := (select f.definition from find_version(workflow_diff.name, workflow_diff.to_version) as f);
begin
  return query
  with a as (
    select null::text as task, e.key, e.value from jsonb_each(v_a - 'tasks') as e
    union all select t.key, e.key, e.value from jsonb_each(v_a -> 'tasks') as t cross join lateral jsonb_each(t.value) as e
  ), b as (
    select null::text as task, e.key, e.value from jsonb_each(v_b - 'tasks') as e
    union all select t.key, e.key, e.value from jsonb_each(v_b -> 'tasks') as t cross join lateral jsonb_each(t.value) as e
  )
  select coalesce(a.task, b.task), coalesce(a.key, b.key), a.value, b.value
  from a full join b on b.task is not distinct from a.task and b.key = a.key
  where a.value is distinct from b.value
  order by 1 nulls first, 2;
end
$$;
comment on function fencepost.workflow_diff(text, int, int) is 'What differs between two versions of a workflow, by task and key. Raises JE002.';
