-- What expressions of a definition see, and how they are read. All are PostgreSQL's own SQL/JSON paths over
-- {"input": …, "tasks": {name: output}, "errors": {name: error}, "run": {…}}, for items of a map also "item", "index".

-- The context of the expressions of one of a run's tasks. With p_names only the outputs of those tasks; null gives those
-- of all that come before it, which have ended: what else may have ended by now is chance, and not seen.
create function fencepost_private.run_context(p_run_id bigint, p_task_no int, p_names text[])
returns jsonb
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_run     record;
  v_outputs jsonb := '{}'::jsonb;
  v_errors  jsonb := '{}'::jsonb;
begin
  select r.version_id, r.input, jsonb_build_object('id', r.run_id, 'workflow', w.name, 'tags', to_jsonb(r.tags), 'started_at', r.created_at) as run into v_run
  from run r cross join lateral (select w.name from workflow w where w.workflow_id = r.workflow_id offset 0) as w
  where r.run_id = p_run_id;
  if p_names is null or cardinality(p_names) > 0 then
    with recursive before as (
      select e.parent_no as task_no from workflow_edge e where p_names is null and e.version_id = v_run.version_id and e.child_no = p_task_no
      union
      select e.parent_no from before b cross join lateral (select e.parent_no from workflow_edge e where e.version_id = v_run.version_id and e.child_no = b.task_no offset 0) as e
    )
    select coalesce(jsonb_object_agg(d.name, coalesce(t.output, 'null')) filter (where t.status in ('completed', 'failed')), '{}'),
           coalesce(jsonb_object_agg(d.name, t.error) filter (where t.status = 'failed'), '{}')
      into v_outputs, v_errors
    from (
      select d.name, d.task_no
      from unnest(p_names) as n(name)
      cross join lateral (select d.name, d.task_no from workflow_task d where d.name = n.name and d.version_id = v_run.version_id offset 0) as d
      union all
      select d.name, d.task_no
      from before b
      cross join lateral (select d.name, d.task_no from workflow_task d where d.version_id = v_run.version_id and d.task_no = b.task_no offset 0) as d
    ) as d
    cross join lateral (select t.status, t.output, t.error from task t where t.run_id = p_run_id and t.task_no = d.task_no and t.item is null offset 0) as t;
  end if;
  return jsonb_build_object('input', v_run.input, 'run', v_run.run, 'tasks', v_outputs, 'errors', v_errors);
end
$$;
comment on function fencepost_private.run_context(bigint, int, text[]) is 'What the expressions of a task of a run see: the outputs of the named tasks, or of all that come before it.';

-- Whether a path is a predicate, which is true, false or unknown (null) also where there is nothing to read. A path that
-- is none finds nothing there, or something else, or cannot be evaluated.
create function fencepost_private.is_predicate(p_path jsonpath)
returns boolean
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
begin
  return jsonb_path_query_array_tz('{}', p_path) in ('[true]', '[false]', '[null]');
exception when others then
  return false;
end
$$;
comment on function fencepost_private.is_predicate(jsonpath) is 'Whether a path is a predicate.';

-- Decides a condition. One that is unknown, because it compares a text with a number for instance, or that cannot be
-- evaluated, is neither true nor false: then `problem` says so, and what it has read. No path stops whoever moves its run.
create function fencepost_private.decided(p_path jsonpath, p_context jsonb, out holds boolean, out problem text)
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
begin
  if p_path is null then
    return;
  end if;
  holds := jsonb_path_match_tz(p_context, p_path);
  if holds is null then
    problem := format('its condition is neither true nor false: %s where %s', p_path, what_was_read(p_path, p_context));
  end if;
exception when others then
  problem := format('its condition is neither true nor false: %s where %s (%s)', p_path, what_was_read(p_path, p_context), sqlerrm);
end
$$;
comment on function fencepost_private.decided(jsonpath, jsonb) is 'Whether a condition is true in a context, or what keeps it from being true or false.';

create function fencepost_private.described(p_value jsonb)
returns text
language sql
immutable
return coalesce(fencepost_private.clipped(fencepost_private.shown(p_value)::text, 200), 'nothing');
comment on function fencepost_private.described(jsonb) is 'A value as a message shows it.';

-- The values of a context that a path starts from, for people: $."input"."amount" is "5000".
create function fencepost_private.what_was_read(p_path jsonpath, p_context jsonb)
returns text
language sql
stable
set search_path = fencepost_private, pg_temp
as $$
  select coalesce(string_agg(format('%s is %s', r.path, described(nullif(jsonb_path_query_array_tz(p_context, r.path::jsonpath, silent => true), '[]') -> 0)), ', ' order by r.place), 'nothing is read')
  from (
    select m[1] as path, min(place) as place
    from regexp_matches(p_path::text, '(\$(?:\."(?:[^"\\]|\\.)*")+)|"(?:[^"\\]|\\.)*"', 'g') with ordinality as f(m, place)
    where m[1] is not null
    group by m[1] order by 2 limit 5
  ) as r
$$;
comment on function fencepost_private.what_was_read(jsonpath, jsonb) is 'The values that a path starts from in a context, for people.';

-- What a path gives in a context: null (not JSON's) when it finds nothing; an array, always, when it may find several
-- values. Errors: JE003 when it cannot be evaluated, or is a predicate and unknown.
create function fencepost_private.value_at(p_path jsonpath, p_context jsonb)
returns jsonb
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
declare
  v_found   jsonb;
  v_problem text;
begin
  begin
    v_found := jsonb_path_query_array_tz(p_context, p_path);
  exception when others then
    v_problem := sqlerrm;
  end;
  if v_found = '[null]' and is_predicate(p_path) then
    v_problem := 'neither true nor false';
  end if;
  if v_problem is not null then
    perform raise_error('JE003', format('%s where %s: %s', p_path, what_was_read(p_path, p_context), v_problem));
  end if;
  return case when finds_many(p_path) then v_found
              when jsonb_array_length(v_found) = 1 then v_found -> 0
              else nullif(v_found, '[]') end;
end
$$;
comment on function fencepost_private.value_at(jsonpath, jsonb) is 'What a path gives in a context; null when it finds nothing. Raises JE003.';

-- The same, but says what went wrong instead of raising it.
create function fencepost_private.try_value(p_path jsonpath, p_context jsonb, out value jsonb, out problem text)
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
begin
  if p_path is not null then
    value := value_at(p_path, p_context);
  end if;
exception when others then
  problem := sqlerrm;
end
$$;
comment on function fencepost_private.try_value(jsonpath, jsonb) is 'What a path gives in a context, or why it cannot be evaluated.';

-- Whether a path may find several values: it has a wildcard, a filter, a range or keyvalue(). What such a path finds is
-- always an array, also when it happens to be a single value.
create function fencepost_private.finds_many(p_path jsonpath) returns boolean
language sql immutable
set search_path = fencepost_private, pg_temp
as $$
  select regexp_replace(p_path::text, '"([^"\\]|\\.)*"', '""', 'g') ~ '\[\*|\.\*|\?\s*\(|\sto\s|\.keyvalue'
$$;
comment on function fencepost_private.finds_many(jsonpath) is 'Whether a path may find several values, and so always gives an array.';

-- Fills an input template: strings that start with $ are paths (null when they find nothing; an array, always, when they
-- have a wildcard, a filter or a range), $$ begins a literal dollar, everything else stays. Errors: JE003, as value_at.
create function fencepost_private.filled(p_template jsonb, p_context jsonb)
returns jsonb
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $body$
begin
  case jsonb_typeof(p_template)
    when 'string' then
      if p_template #>> '{}' like '$$%' then
        return to_jsonb(substr(p_template #>> '{}', 2));
      elsif p_template #>> '{}' like '$%' then
        return coalesce(value_at((p_template #>> '{}')::jsonpath, p_context), 'null');
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
comment on function fencepost_private.filled(jsonb, jsonb) is 'An input template with its paths replaced by what they find in a context. Raises JE003.';

-- The same, but says what went wrong instead of raising it. With p_of_items as half_filled, for all items of a map.
create function fencepost_private.try_filled(p_template jsonb, p_context jsonb, p_of_items boolean, out value jsonb, out problem text)
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
begin
  if p_template is not null then
    value := case when p_of_items then half_filled(p_template, p_context) else filled(p_template, p_context) end;
  end if;
exception when others then
  problem := 'its input cannot be built: ' || sqlerrm;
end
$$;
comment on function fencepost_private.try_filled(jsonb, jsonb, boolean) is 'An input template filled, or why it cannot be.';

-- Fills what is the same for all items of a map, once: paths that read neither item nor index. What they found is
-- written so that filled() leaves it as it is.
create function fencepost_private.half_filled(p_template jsonb, p_context jsonb)
returns jsonb
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $body$
begin
  case jsonb_typeof(p_template)
    when 'string' then
      if p_template #>> '{}' ~ '^\$($|[^$])' and not path_roots((p_template #>> '{}')::jsonpath) && '{item,index,*}' then
        return literal(filled(p_template, p_context));
      end if;
      return p_template;
    when 'object' then
      return (select coalesce(jsonb_object_agg(e.key, half_filled(e.value, p_context)), '{}') from jsonb_each(p_template) as e);
    when 'array' then
      return (select coalesce(jsonb_agg(half_filled(e.value, p_context) order by e.place), '[]') from jsonb_array_elements(p_template) with ordinality as e(value, place));
    else
      return p_template;
  end case;
end
$body$;
comment on function fencepost_private.half_filled(jsonb, jsonb) is 'An input template with those paths replaced that do not read the item of a map.';

-- A value as a template that gives it back: its strings that start with $ begin with one more.
create function fencepost_private.literal(p_value jsonb)
returns jsonb
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
begin
  if position('"$' in p_value::text) = 0 then
    return p_value;
  end if;
  case jsonb_typeof(p_value)
    when 'string' then
      return case when p_value #>> '{}' like '$%' then to_jsonb('$' || (p_value #>> '{}')) else p_value end;
    when 'object' then
      return (select jsonb_object_agg(e.key, literal(e.value)) from jsonb_each(p_value) as e);
    when 'array' then
      return (select jsonb_agg(literal(e.value) order by e.place) from jsonb_array_elements(p_value) with ordinality as e(value, place));
    else
      return p_value;
  end case;
end
$$;
comment on function fencepost_private.literal(jsonb) is 'A value as an input template that gives exactly that value.';

-- What a path reads of its context: input, run, item, index, tasks.<name>, errors.<name> …; * where it may read
-- anything (a bare $, a wildcard). Read from the path as the server prints it: keys quoted, no comments.
create function fencepost_private.path_roots(p_path jsonpath)
returns text[]
language sql
immutable
set search_path = fencepost_private, pg_temp
as $$
  select coalesce(array_agg(distinct case
    when m[2] is null or m[2] in ('tasks', 'errors') and m[3] is null then '*'
    when m[2] in ('tasks', 'errors') then m[2] || '.' || m[3]
    else m[2] end), '{}')
  from regexp_matches(p_path::text, '(\$)(?:\."((?:[^"\\]|\\.)*)"(?:\."((?:[^"\\]|\\.)*)")?)?|"(?:[^"\\]|\\.)*"', 'g') as m
  where m[1] is not null
$$;
comment on function fencepost_private.path_roots(jsonpath) is 'What a path reads of its context; * where it may read anything.';

-- The strings of an input template that are paths.
create function fencepost_private.template_paths(p_template jsonb)
returns setof text
language sql
immutable
set search_path = fencepost_private, pg_temp
as $body$
  select s #>> '{}' from jsonb_path_query(p_template, 'strict $.** ? (@.type() == "string")') as s where s #>> '{}' ~ '^\$($|[^$])'
$body$;
comment on function fencepost_private.template_paths(jsonb) is 'The strings of an input template that are paths.';

-- Which tasks' outputs and errors these paths read; null when that cannot be told.
create function fencepost_private.tasks_read(p_paths text[])
returns text[]
language sql
immutable
set search_path = fencepost_private, pg_temp
as $$
  select case when '*' = any (r.roots) then null
              else array(select distinct substr(n, position('.' in n) + 1) from unnest(r.roots) as n where n ~ '^(tasks|errors)\.') end
  from (select array(select unnest(path_roots(p::jsonpath)) from unnest(p_paths) as p) as roots) as r
$$;
comment on function fencepost_private.tasks_read(text[]) is 'Names of the tasks whose outputs or errors these paths read; null when they may read any.';
