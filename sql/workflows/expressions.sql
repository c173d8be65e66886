-- What expressions of a definition see, and how they are read. All are PostgreSQL's own SQL/JSON paths over
-- {"input": …, "tasks": {name: output}, "errors": {name: error}, "run": {…}}, for items of a map also "item", "index".

-- The context of a run's expressions. With p_names only the outputs of those tasks; null gives all.
create function fencepost_private.run_context(p_run_id bigint, p_names text[])
returns jsonb
language sql
volatile
set search_path = fencepost_private, pg_temp
as $$
  select jsonb_build_object(
    'input', r.input,
    'run', jsonb_build_object('id', r.run_id, 'workflow', w.name, 'tags', to_jsonb(r.tags), 'started_at', r.created_at),
    'tasks', coalesce(o.outputs, '{}'),
    'errors', coalesce(o.errors, '{}'))
  from run r
  join workflow w on w.workflow_id = r.workflow_id
  left join lateral (
    select jsonb_object_agg(d.name, coalesce(t.output, 'null')) filter (where t.status in ('completed', 'failed')) as outputs,
           jsonb_object_agg(d.name, t.error) filter (where t.status = 'failed') as errors
    from workflow_task d
    join task t on t.run_id = r.run_id and t.task_no = d.task_no and t.parent_task_id is null
    where d.version_id = r.version_id and (p_names is null or d.name = any (p_names)) and t.status in ('completed', 'failed')
  ) as o on p_names is null or cardinality(p_names) > 0
  where r.run_id = p_run_id
$$;
comment on function fencepost_private.run_context(bigint, text[]) is 'What the expressions of a run see; only the named tasks'' outputs when names are given.';

-- Fills an input template: strings that start with $ are paths (null when they find nothing, an array when they find
-- several), $$ begins a literal dollar, everything else stays.
create function fencepost_private.filled(p_template jsonb, p_context jsonb)
returns jsonb
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $body$
begin
  case jsonb_typeof(p_template)
    when 'string' then
      if p_template #>> '{}' like '$$%' then
        return to_jsonb(substr(p_template #>> '{}', 2));
      elsif p_template #>> '{}' like '$%' then
        return (select case count(*) when 0 then 'null' when 1 then (array_agg(f.found))[1] else jsonb_agg(f.found) end
                from jsonb_path_query(p_context, (p_template #>> '{}')::jsonpath, silent => true) as f(found));
      end if;
      return p_template;
    when 'object' then
      return (select coalesce(jsonb_object_agg(e.key, filled(e.value, p_context)), '{}') from jsonb_each(p_template) as e);
    when 'array' then
      return (select coalesce(jsonb_agg(filled(e.value, p_context) order by e.place), '[]') from jsonb_array_elements(p_template) with ordinality as e(value, place));
    else
      return p_template;
  end case;
end
$body$;
comment on function fencepost_private.filled(jsonb, jsonb) is 'An input template with its paths replaced by what they find in a context.';

-- A predicate holds when it is true; a path that is no predicate holds when it finds something that is not false or null.
create function fencepost_private.holds(p_path jsonpath, p_context jsonb)
returns boolean
language sql
immutable
set search_path = fencepost_private, pg_temp
as $$
  select coalesce(bool_or(f.found not in ('false', 'null')), false) from jsonb_path_query(p_context, p_path, silent => true) as f(found)
$$;
comment on function fencepost_private.holds(jsonpath, jsonb) is 'Whether a condition is true in a context.';
