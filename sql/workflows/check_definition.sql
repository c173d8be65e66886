-- Checks a definition, but for cycles (see task_order). The first problem raises JE008: what is wrong, where (as a
-- path such as tasks.charge.after[1]) and what would be right.
create function fencepost_private.check_definition(p_definition jsonb)
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
declare
  v_tasks jsonb := p_definition -> 'tasks';   -- taken out once: it may have a megabyte
  v_count int;
  v       record;
begin
  if p_definition is null or jsonb_typeof(p_definition) <> 'object' then
    perform raise_error('JE008', 'a definition must be a JSON object', format('received %s', coalesce(jsonb_typeof(p_definition), 'null')), 'For example {"tasks": {"a": {"type": "t.a"}}}.');
  end if;
  if octet_length(p_definition::text) > 1048576 then
    perform raise_error('JE008', 'a definition may have at most 1 MiB', format('received %s bytes', octet_length(p_definition::text)), 'Split it into child workflows, or map over data.');
  end if;
  perform check_keys(p_definition, array['tasks', 'input', 'on_failure', 'description'], '');
  perform check_choice(p_definition, 'on_failure', array['fail', 'compensate'], '');
  if jsonb_typeof(p_definition -> 'input') not in ('object', 'boolean') then
    perform raise_error('JE008', 'input must be a JSON Schema', format('at input: received %s', jsonb_typeof(p_definition -> 'input')), 'An object such as {"type": "object", "required": ["amount"]}.');
  end if;
  perform check_schema(p_definition -> 'input', 'input');
  if jsonb_typeof(v_tasks) is distinct from 'object' or v_tasks = '{}' then
    perform raise_error('JE008', 'a definition needs tasks', format('at tasks: received %s', coalesce(left(v_tasks::text, 200), 'nothing')), 'An object with a task for each name.');
  end if;
  select count(*) into v_count from jsonb_object_keys(v_tasks);
  if v_count > 10000 then
    perform raise_error('JE008', 'a definition may have at most 10000 tasks', format('at tasks: received %s', v_count), 'Use a map, or child workflows.');
  end if;

  for v in select t.name, t.spec, 'tasks.' || t.name as place from jsonb_each(v_tasks) as t(name, spec) loop
    if v.name !~ '^[A-Za-z_][A-Za-z0-9_-]{0,99}$' then
      perform raise_error('JE008', 'a task needs a name of letters, digits, _ and -', format('at tasks: received %s', quote_literal(left(v.name, 120))), 'Begin with a letter; at most 100 characters.');
    end if;
    perform check_task(v.spec, v.place, v_tasks);
  end loop;

  select c.name, a.parent, a.place - 1 as place, a.parent = c.name as is_self, s.spec is null as is_unknown, s.spec ->> 'kind' as kind into v
  from jsonb_each(v_tasks) as c(name, spec)
  cross join lateral jsonb_array_elements_text(coalesce(c.spec -> 'after', '[]')) with ordinality as a(parent, place)
  left join lateral (select v_tasks -> a.parent as spec) as s on true
  where s.spec is null or a.parent = c.name
  limit 1;
  if found then
    perform raise_error('JE008',
      case when v.is_self then format('task %s waits for itself', v.name) else format('task %s waits for %s, which does not exist', v.name, quote_literal(v.parent)) end,
      format('at tasks.%s.after[%s]: received %s', v.name, v.place, quote_literal(v.parent)),
      coalesce(did_you_mean(v.parent, array(select k from jsonb_object_keys(v_tasks) as k where k <> v.name)), 'Name a task of this definition.'));
  end if;
  select c.name, a.parent into v
  from jsonb_each(v_tasks) as c(name, spec)
  cross join lateral jsonb_array_elements_text(coalesce(c.spec -> 'after', '[]')) as a(parent)
  group by c.name, a.parent having count(*) > 1 limit 1;
  if found then
    perform raise_error('JE008', format('task %s waits twice for %s', v.name, v.parent), format('at tasks.%s.after', v.name), 'Name each parent once.');
  end if;
end
$$;
comment on function fencepost_private.check_definition(jsonb) is 'Raises JE008 for the first problem of a workflow definition, naming its place.';

-- One task of p_tasks. Errors: JE008.
create function fencepost_private.check_task(p_spec jsonb, p_place text, p_tasks jsonb)
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
declare
  v_kind   text;
  v_common constant text[] := array['kind', 'after', 'when', 'description', 'on_failure'];
  v_needed text;
begin
  if jsonb_typeof(p_spec) <> 'object' then
    perform raise_error('JE008', 'a task must be a JSON object', format('at %s: received %s', p_place, jsonb_typeof(p_spec)), 'For example {"type": "email.send", "after": ["charge"]}.');
  end if;
  perform check_choice(p_spec, 'kind', array['job', 'approval', 'timer', 'signal', 'map', 'workflow'], p_place);
  v_kind := coalesce(p_spec ->> 'kind', 'job');
  perform check_keys(p_spec, v_common || case v_kind
    when 'job' then array['type', 'input', 'retry', 'timeout', 'priority', 'compensate']
    when 'approval' then array['expires_after', 'on_expiry', 'on_reject', 'reason']
    when 'timer' then array['delay', 'until']
    when 'signal' then array['signal', 'expires_after']
    when 'map' then array['type', 'over', 'input', 'max_parallel', 'retry', 'timeout', 'priority']
    else array['workflow', 'version', 'input'] end, p_place);
  perform check_choice(p_spec, 'on_failure', array['fail', 'continue'], p_place);

  v_needed := case v_kind when 'job' then 'type' when 'map' then 'type' when 'signal' then 'signal' when 'workflow' then 'workflow' end;
  if v_needed is not null and not is_name(p_spec -> v_needed) then
    perform raise_error('JE008', format('a task of kind %s needs a %s', v_kind, v_needed), format('at %s.%s: received %s', p_place, v_needed, coalesce(left((p_spec -> v_needed)::text, 200), 'nothing')),
      'A name such as payment.charge.');
  end if;
  if p_spec ? 'compensate' and not is_name(p_spec -> 'compensate') then
    perform raise_error('JE008', 'compensate names the type of the job that undoes the task', format('at %s.compensate: received %s', p_place, left((p_spec -> 'compensate')::text, 200)), 'A name such as payment.refund.');
  end if;
  if p_spec ? 'after' and (jsonb_typeof(p_spec -> 'after') <> 'array' or exists (select from jsonb_array_elements(p_spec -> 'after') as a where jsonb_typeof(a) <> 'string')) then
    perform raise_error('JE008', 'after must be an array of task names', format('at %s.after: received %s', p_place, left((p_spec -> 'after')::text, 200)), 'For example ["validate"].');
  end if;
  if v_kind = 'map' and not p_spec ? 'over' then
    perform raise_error('JE008', 'a map needs over', format('at %s.over: received nothing', p_place), 'A path to an array, such as $.tasks.reserve.parcels.');
  end if;
  if v_kind = 'timer' and (p_spec ? 'delay') = (p_spec ? 'until') then
    perform raise_error('JE008', 'a timer needs either delay or until', format('at %s: received %s', p_place, case when p_spec ? 'delay' then 'both' else 'neither' end), 'delay is an interval, until a path to a time.');
  end if;
  if p_spec ? 'retry' then
    if jsonb_typeof(p_spec -> 'retry') <> 'object' then
      perform raise_error('JE008', 'retry must be a JSON object', format('at %s.retry: received %s', p_place, left((p_spec -> 'retry')::text, 200)), 'For example {"max_attempts": 3}.');
    end if;
    perform check_keys(p_spec -> 'retry', array['max_attempts'], p_place || '.retry');
    perform check_number(p_spec -> 'retry', 'max_attempts', 1, 1000000, p_place || '.retry');
  end if;
  perform check_number(p_spec, 'priority', 0, 9, p_place), check_number(p_spec, 'max_parallel', 1, 1000000, p_place), check_number(p_spec, 'version', 1, 2147483647, p_place);
  perform check_choice(p_spec, 'on_expiry', array['reject', 'approve', 'fail'], p_place), check_choice(p_spec, 'on_reject', array['fail', 'skip', 'continue'], p_place);
  perform check_interval(p_spec, 'timeout', p_place), check_interval(p_spec, 'expires_after', p_place), check_interval(p_spec, 'delay', p_place);
  if jsonb_typeof(p_spec -> 'description') <> 'string' then
    perform raise_error('JE008', 'description must be a text', format('at %s.description: received %s', p_place, left((p_spec -> 'description')::text, 200)), 'It is for people.');
  end if;
  if p_spec ? 'reason' and (jsonb_typeof(p_spec -> 'reason') <> 'string' or length(p_spec ->> 'reason') not between 1 and 1000) then
    perform raise_error('JE008', 'reason must be a text of 1 to 1000 characters', format('at %s.reason: received %s', p_place, left((p_spec -> 'reason')::text, 200)), 'What the person who decides should know.');
  end if;
  perform check_path(p_spec, 'when', p_place, p_tasks), check_path(p_spec, 'over', p_place, p_tasks), check_path(p_spec, 'until', p_place, p_tasks);
  perform check_template(p_spec -> 'input', p_place || '.input', p_tasks, v_kind = 'map');
end
$$;
comment on function fencepost_private.check_task(jsonb, text, jsonb) is 'Raises JE008 for the first problem of a task in a definition.';

create function fencepost_private.is_name(p_value jsonb)
returns boolean
language sql
immutable
return coalesce(jsonb_typeof(p_value) = 'string' and p_value #>> '{}' ~ '^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,199}$', false);
comment on function fencepost_private.is_name(jsonb) is 'Whether a JSON value is a text that can name a type, a signal or a workflow.';

create function fencepost_private.check_keys(p_object jsonb, p_known text[], p_place text)
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
declare
  v_key text := (select k from jsonb_object_keys(p_object) as k where not k = any (p_known) limit 1);
begin
  if v_key is not null then
    perform raise_error('JE008', format('unknown key %s', quote_literal(v_key)), format('at %s: received %s', coalesce(nullif(p_place, ''), 'the definition'), quote_literal(v_key)),
      coalesce(did_you_mean(v_key, p_known), '') || 'Known keys: ' || array_to_string(p_known, ', ') || '.');
  end if;
end
$$;
comment on function fencepost_private.check_keys(jsonb, text[], text) is 'Raises JE008 for a key that is not known.';

create function fencepost_private.check_choice(p_object jsonb, p_key text, p_choices text[], p_place text)
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
begin
  if p_object ? p_key and not coalesce(p_object ->> p_key = any (p_choices), false) then
    perform raise_error('JE008', format('%s must be one of %s', p_key, array_to_string(p_choices, ', ')), format('at %s: received %s', concat_ws('.', nullif(p_place, ''), p_key), left((p_object -> p_key)::text, 200)),
      coalesce(did_you_mean(p_object ->> p_key, p_choices), format('Leave it out for %s.', p_choices[1])));
  end if;
end
$$;
comment on function fencepost_private.check_choice(jsonb, text, text[], text) is 'Raises JE008 for a value that is not one of the choices.';

create function fencepost_private.check_number(p_object jsonb, p_key text, p_least int, p_most int, p_place text)
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
begin
  if p_object ? p_key and (jsonb_typeof(p_object -> p_key) <> 'number' or (p_object ->> p_key)::numeric % 1 <> 0
      or (p_object ->> p_key)::numeric not between p_least and p_most) then
    perform raise_error('JE008', format('%s must be a whole number from %s to %s', p_key, p_least, p_most), format('at %s.%s: received %s', p_place, p_key, left((p_object -> p_key)::text, 200)), format('For example %s, or leave it out.', p_least));
  end if;
end
$$;
comment on function fencepost_private.check_number(jsonb, text, int, int, text) is 'Raises JE008 for a value that is not a whole number in range.';

create function fencepost_private.check_interval(p_object jsonb, p_key text, p_place text)
returns void
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
begin
  if p_object ? p_key then
    begin
      if jsonb_typeof(p_object -> p_key) = 'string' and (p_object ->> p_key)::interval > interval '0' and (p_object ->> p_key)::interval <= interval '100 years' then
        return;
      end if;
    exception when data_exception then
      null;
    end;
    perform raise_error('JE008', format('%s must be an interval longer than nothing, and of at most 100 years', p_key), format('at %s.%s: received %s', p_place, p_key, left((p_object -> p_key)::text, 200)), 'For example "3 days" or "90 seconds".');
  end if;
end
$$;
comment on function fencepost_private.check_interval(jsonb, text, text) is 'Raises JE008 for a value that is not a positive interval.';

create function fencepost_private.check_path(p_object jsonb, p_key text, p_place text, p_tasks jsonb)
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
begin
  if not p_object ? p_key then
    return;
  elsif jsonb_typeof(p_object -> p_key) <> 'string' then
    perform raise_error('JE008', format('%s must be an SQL/JSON path in a string', p_key), format('at %s.%s: received %s', p_place, p_key, left((p_object -> p_key)::text, 200)), 'For example "$.input.amount > 1000".');
  end if;
  perform check_expression(p_object ->> p_key, p_key, format('%s.%s', p_place, p_key), p_tasks, false);
  if p_key = 'when' and not is_predicate((p_object ->> p_key)::jsonpath) then
    perform raise_error('JE008', 'when must be a predicate: something that is true or false', format('at %s.when: received %s', p_place, quote_literal(left(p_object ->> p_key, 200))),
      'For example $.input.amount > 1000, $.input.express == true or exists($.input.coupon).');
  end if;
end
$$;
comment on function fencepost_private.check_path(jsonb, text, text, jsonb) is 'Raises JE008 for a value that is not an SQL/JSON path over the context of a run.';

-- Every string of an input template that starts with $ must be a path ($$ begins a literal dollar).
create function fencepost_private.check_template(p_template jsonb, p_place text, p_tasks jsonb, p_of_item boolean)
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $body$
declare
  v_path text;
begin
  for v_path in select t from template_paths(p_template) as t loop
    perform check_expression(v_path, 'a string of the input', p_place, p_tasks, p_of_item);
  end loop;
end
$body$;
comment on function fencepost_private.check_template(jsonb, text, jsonb, boolean) is 'Raises JE008 for a string of an input template that looks like a path and is none.';

-- A path must parse, have no variables, and read what there is: input, run, tasks and errors of this definition's
-- tasks, and in the input of a map also item and index. Errors: JE008.
create function fencepost_private.check_expression(p_path text, p_what text, p_place text, p_tasks jsonb, p_of_item boolean)
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $body$
declare
  v_path jsonpath;
  v_root text;
begin
  begin
    v_path := p_path::jsonpath;
  exception when others then
    perform raise_error('JE008', format('%s is not a valid SQL/JSON path', p_what), format('at %s: received %s (%s)', p_place, quote_literal(left(p_path, 200)), sqlerrm),
      'For example $.input.amount > 1000 or $.tasks.reserve.parcels. In an input, strings that start with $ are paths; write $$ for a literal dollar.');
  end;
  if regexp_replace(v_path::text, '"(?:[^"\\]|\\.)*"', '""', 'g') like '%$""%' then
    perform raise_error('JE008', format('%s has a variable, and there are none', p_what), format('at %s: received %s', p_place, quote_literal(left(p_path, 200))),
      'Begin with $.input, $.tasks or $.run. In an input, write $$ for a literal dollar.');
  end if;
  select r into v_root
  from unnest(path_roots(v_path)) as r
  where not (r in ('input', 'run', '*') or p_of_item and r in ('item', 'index') or r ~ '^(tasks|errors)\.' and p_tasks ? substr(r, position('.' in r) + 1))
  limit 1;
  if found then
    perform raise_error('JE008', format('%s reads $.%s, which does not exist', p_what, v_root), format('at %s: received %s', p_place, quote_literal(left(p_path, 200))),
      coalesce(did_you_mean(substr(v_root, position('.' in v_root) + 1), array(select k from jsonb_object_keys(p_tasks) as k where v_root ~ '^(tasks|errors)\.')),
        'There are $.input, $.tasks.<name>, $.errors.<name> and $.run; in the input of a map also $.item and $.index.'));
  end if;
end
$body$;
comment on function fencepost_private.check_expression(text, text, text, jsonb, boolean) is 'Raises JE008 for a path that does not parse or reads what no run has.';
