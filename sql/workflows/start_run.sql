-- Starts a run of a workflow, in the caller's transaction, and returns its id.
--   workflow         its name
--   input            JSON for the run, checked against the definition's schema; default {}
--   version          default the latest; the run stays on it for life
--   idempotency_key  the same key for the same workflow and tenant gives the same run
--   tags             words for finding it
--   priority         of its jobs, unless a task says otherwise
-- Locks: the new run; waits for a concurrent start under the same key.
-- Errors: JE002 (workflow or version), JE003 (input, priority), JE005 (key used with another input).
create function fencepost.start_run(workflow text, input jsonb default '{}', version int default null, idempotency_key text default null,
                                    tags text[] default '{}', priority int default null, tenant text default null)
returns bigint
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
#variable_conflict use_column
declare
  v_now     timestamptz := fencepost_private.now();
  v_tenant  text := coalesce(start_run.tenant, current_tenant());
  v_input   jsonb := coalesce(start_run.input, '{}');
  v_version record;
  v_known   record;
  v_id      bigint;
  v_problem text;
begin
  v_version := find_version(start_run.workflow, start_run.version);
  perform check_lane('run', coalesce(start_run.priority, 5)),
          check_job_options(null, null, start_run.idempotency_key, null, null, null);
  v_problem := schema_problem(v_version.definition -> 'input', v_input, 'input');
  if v_problem is not null then
    perform raise_error('JE003', format('the input does not fit the schema of %s version %s', start_run.workflow, v_version.version), v_problem, 'See the definition of the version.');
  end if;

  loop
    v_id := (create_runs(v_version.workflow_id, v_version.version_id, v_tenant, array[v_input], start_run.idempotency_key, coalesce(start_run.tags, '{}'), start_run.priority, null, null, v_now))[1];
    exit when v_id is not null;
    select r.run_id, r.input into v_known from run r
    where r.tenant = v_tenant and r.workflow_id = v_version.workflow_id and r.idempotency_key = start_run.idempotency_key;
    if found and v_known.input is distinct from v_input then
      perform raise_error('JE005', format('idempotency key %s was already used with another input', quote_literal(start_run.idempotency_key)), format('the key belongs to run %s', v_known.run_id),
        'Send the same input to get the same run, or use another key.');
    elsif found then
      return v_known.run_id;
    end if;
  end loop;
  perform start_roots(array[v_id], v_now);
  return v_id;
end
$$;
comment on function fencepost.start_run(text, jsonb, int, text, text[], int, text)
  is 'Starts a run of a workflow in the caller''s transaction and returns its id; with a used idempotency key, the run that has it. Raises JE002, JE003, JE005.';

-- A published version by workflow name and number (null: the latest). Errors: JE002.
create function fencepost_private.find_version(p_workflow text, p_version int, out workflow_id int, out version_id int, out version int, out definition jsonb)
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
#variable_conflict use_column
begin
  select w.workflow_id, v.version_id, v.version, v.definition into workflow_id, version_id, version, definition
  from workflow w
  join workflow_version v on v.workflow_id = w.workflow_id and v.version = coalesce(p_version, w.latest_version)
  where w.name = p_workflow;
  if not found then
    perform raise_error('JE002', format('workflow %s%s does not exist', coalesce(quote_literal(p_workflow), 'null'), coalesce(' version ' || p_version, '')), format('received workflow = %s, version = %s', coalesce(p_workflow, 'null'), coalesce(p_version::text, 'null')),
      coalesce(did_you_mean(p_workflow, array(select w.name from workflow w where w.name <> p_workflow)), 'Publish it first with fencepost.publish_workflow().'));
  end if;
end
$$;
comment on function fencepost_private.find_version(text, int) is 'A published version of a workflow. Raises JE002.';

-- Stores runs of one version, one for each input, and their tasks, all pending. Returns their ids in the order of the
-- inputs; none when the idempotency key (for a single run only) is taken.
create function fencepost_private.create_runs(
  p_workflow_id int, p_version_id int, p_tenant text, p_inputs jsonb[], p_key text, p_tags text[], p_priority int, p_parent_task_id bigint, p_restarted_from bigint, p_now timestamptz)
returns bigint[]
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  v_root bigint;
  v_ids  bigint[];
begin
  if p_parent_task_id is not null then
    select r.root_run_id into v_root from task t join run r on r.run_id = t.run_id where t.task_id = p_parent_task_id;
  end if;
  with given as materialized (
    select nextval('run_id_seq') as id, i.input, i.place from unnest(p_inputs) with ordinality as i(input, place)
  ), stored as (
    insert into run (run_id, root_run_id, workflow_id, version_id, tenant, input, tags, priority, idempotency_key, parent_task_id, restarted_from, created_at, pending)
    select g.id, coalesce(v_root, g.id), p_workflow_id, p_version_id, p_tenant, g.input, p_tags, p_priority, p_key, p_parent_task_id, p_restarted_from, p_now, v.tasks
    from given g cross join workflow_version v
    where v.version_id = p_version_id
    order by g.place
    on conflict do nothing
    returning run_id
  ), listed as (
    insert into task (run_id, task_no, kind, status, unmet)
    select s.run_id, d.task_no, d.kind, 'pending', d.parents
    from stored s cross join workflow_task d
    where d.version_id = p_version_id
    order by s.run_id, d.task_no
  ), told as (
    insert into event (xid, at, tenant, kind, run_id, task_id, actor, data)
    select xid(), p_now, p_tenant, 'run.started', s.run_id, p_parent_task_id, actor(),
           case when p_restarted_from is not null then jsonb_build_object('restarted_from', p_restarted_from) end
    from stored s order by s.run_id
  )
  select array_agg(s.run_id order by s.run_id) into v_ids from stored s;
  return coalesce(v_ids, '{}'::bigint[]);
end
$$;
comment on function fencepost_private.create_runs(int, int, text, jsonb[], text, text[], int, bigint, bigint, timestamptz)
  is 'Stores runs of one version with their tasks; returns none when the idempotency key is taken.';

create function fencepost_private.start_roots(p_run_ids bigint[], p_now timestamptz)
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
begin
  perform advance(null, array(select t.task_id from task t where t.run_id = any (p_run_ids) and t.status = 'pending' and t.unmet = 0 and t.parent_task_id is null order by t.task_id), null, p_now);
end
$$;
comment on function fencepost_private.start_roots(bigint[], timestamptz) is 'Starts the tasks of these runs that wait for no other.';

-- The run of a task of kind workflow. A missing workflow or an unfit input fails the task.
create function fencepost_private.start_child(p_task_id bigint, p_run_id bigint, p_workflow text, p_version int, p_input jsonb, p_now timestamptz)
returns fencepost_private.task_end[]
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_version record;
  v_parent  record;
  v_problem text;
  v_id      bigint;
begin
  select w.workflow_id, v.version_id, v.definition into v_version
  from workflow w join workflow_version v on v.workflow_id = w.workflow_id and v.version = coalesce(p_version, w.latest_version)
  where w.name = p_workflow;
  if not found then
    return array[row(p_task_id, 'failed', null, format('JE002: workflow %s does not exist', p_workflow))::task_end];
  end if;
  v_problem := schema_problem(v_version.definition -> 'input', p_input, 'input');
  if v_problem is not null then
    return array[row(p_task_id, 'failed', null, format('JE003: %s', v_problem))::task_end];
  end if;
  select r.tenant, r.priority, r.tags into v_parent from run r where r.run_id = p_run_id;
  v_id := (create_runs(v_version.workflow_id, v_version.version_id, v_parent.tenant, array[p_input], null, v_parent.tags, v_parent.priority, p_task_id, null, p_now))[1];
  update task t set child_run_id = v_id where t.task_id = p_task_id;
  perform start_roots(array[v_id], p_now);
  return '{}'::task_end[];
end
$$;
comment on function fencepost_private.start_child(bigint, bigint, text, int, jsonb, timestamptz) is 'Starts the run that carries out a task of kind workflow; returns the end of the task when it cannot.';

-- The part of JSON Schema that an input is checked with: type, enum, const, required, properties, additionalProperties,
-- items, minimum, maximum, minLength, maxLength, minItems, maxItems, pattern. Other keywords are documentation.
-- Returns the first problem with its place, or null.
create function fencepost_private.schema_problem(p_schema jsonb, p_value jsonb, p_place text)
returns text
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
declare
  v_type  text := jsonb_typeof(p_value);
  v_found text;
begin
  if p_schema is null or p_schema = 'true' then
    return null;
  elsif p_schema = 'false' then
    return format('%s is not allowed', p_place);
  elsif p_schema ? 'type' and not exists (
      select from jsonb_array_elements_text(case jsonb_typeof(p_schema -> 'type') when 'array' then p_schema -> 'type' else jsonb_build_array(p_schema -> 'type') end) as t(name)
      where t.name = v_type or t.name = 'integer' and v_type = 'number' and (p_value #>> '{}')::numeric % 1 = 0) then
    return format('%s must be of type %s, received %s', p_place, p_schema ->> 'type', v_type);
  elsif p_schema ? 'enum' and not p_schema -> 'enum' @> jsonb_build_array(p_value) then
    return format('%s must be one of %s, received %s', p_place, p_schema -> 'enum', left(p_value::text, 100));
  elsif p_schema ? 'const' and p_schema -> 'const' <> p_value then
    return format('%s must be %s, received %s', p_place, p_schema -> 'const', left(p_value::text, 100));
  end if;
  if v_type = 'number' and ((p_value #>> '{}')::numeric < (p_schema ->> 'minimum')::numeric or (p_value #>> '{}')::numeric > (p_schema ->> 'maximum')::numeric) then
    return format('%s must be from %s to %s, received %s', p_place, coalesce(p_schema ->> 'minimum', 'any'), coalesce(p_schema ->> 'maximum', 'any'), p_value);
  elsif v_type = 'string' and (length(p_value #>> '{}') < (p_schema ->> 'minLength')::int or length(p_value #>> '{}') > (p_schema ->> 'maxLength')::int) then
    return format('%s has %s characters, outside %s to %s', p_place, length(p_value #>> '{}'), coalesce(p_schema ->> 'minLength', '0'), coalesce(p_schema ->> 'maxLength', 'any'));
  elsif v_type = 'string' and p_schema ? 'pattern' and (p_value #>> '{}') !~ (p_schema ->> 'pattern') then
    return format('%s must match %s', p_place, p_schema ->> 'pattern');
  elsif v_type = 'array' then
    if jsonb_array_length(p_value) < (p_schema ->> 'minItems')::int or jsonb_array_length(p_value) > (p_schema ->> 'maxItems')::int then
      return format('%s has %s items, outside %s to %s', p_place, jsonb_array_length(p_value), coalesce(p_schema ->> 'minItems', '0'), coalesce(p_schema ->> 'maxItems', 'any'));
    end if;
    select s.problem into v_found
    from jsonb_array_elements(p_value) with ordinality as e(value, place)
    cross join lateral schema_problem(p_schema -> 'items', e.value, format('%s[%s]', p_place, e.place - 1)) as s(problem)
    where s.problem is not null limit 1;
    return v_found;
  elsif v_type = 'object' then
    select format('%s.%s is required', p_place, k) into v_found
    from jsonb_array_elements_text(coalesce(p_schema -> 'required', '[]')) as k where not p_value ? k limit 1;
    if v_found is null then
      select s.problem into v_found
      from jsonb_each(p_value) as e(key, value)
      cross join lateral schema_problem(coalesce(p_schema -> 'properties' -> e.key, p_schema -> 'additionalProperties'), e.value, format('%s.%s', p_place, e.key)) as s(problem)
      where s.problem is not null limit 1;
    end if;
    return v_found;
  end if;
  return null;
end
$$;
comment on function fencepost_private.schema_problem(jsonb, jsonb, text) is 'The first way in which a value does not fit a JSON Schema, with its place; null when it fits.';
