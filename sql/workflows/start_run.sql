-- Starts a run of a workflow, in the caller's transaction, and returns its id.
--   workflow         its name
--   input            JSON for the run, at most 1 MiB, checked against the definition's schema; default {}
--   version          default the latest; the run stays on it for life
--   idempotency_key  the same key for the same workflow and tenant gives the same run
--   tags             words for finding it: at most 100, of 1 to 200 characters each
--   priority         of its jobs, unless a task says otherwise
-- Locks: the new run; waits for a concurrent start under the same key.
-- Errors: JE002 (workflow or version), JE003 (input, priority, tags), JE005 (key used with another input), JE006 (input too large).
create function fencepost.start_run(workflow text, input jsonb default '{}', version int default null, idempotency_key text default null,
                                    tags text[] default '{}', priority int default null, tenant text default null)
returns bigint
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
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
          check_job_options(null, null, start_run.idempotency_key, null, null, null, start_run.tenant), check_tags(start_run.tags),
          check_size(v_input, format('the input of %s', start_run.workflow));
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
  is 'Starts a run of a workflow in the caller''s transaction and returns its id; with a used idempotency key, the run that has it. Raises JE002, JE003, JE005, JE006.';

-- Errors: JE003 for tags that are none, or too many.
create function fencepost_private.check_tags(p_tags text[])
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
declare
  v_bad text;
begin
  if cardinality(p_tags) > 100 then
    perform raise_error('JE003', 'a run may have at most 100 tags', format('received %s', cardinality(p_tags)), 'They are words for finding it: data belongs into the input.');
  end if;
  select coalesce(left(quote_literal(t), 100), 'null') into v_bad from unnest(p_tags) as t where t is null or length(t) not between 1 and 200 limit 1;
  if found then
    perform raise_error('JE003', 'a tag must have 1 to 200 characters', format('received %s', v_bad), 'Tags are words for finding a run.');
  end if;
end
$$;
comment on function fencepost_private.check_tags(text[]) is 'Raises JE003 for tags that no run may have.';

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
set enable_seqscan = off
set plan_cache_mode = force_generic_plan
as $$
declare
  v_outer record;
  v_ids   bigint[];
begin
  select r.root_run_id, r.depth + 1 as depth into v_outer
  from (select t.run_id from task t where t.task_id = p_parent_task_id offset 0) as t
  cross join lateral (select r.root_run_id, r.depth from run r where r.run_id = t.run_id offset 0) as r;
  with given as materialized (
    select nextval('run_id_seq') as id, i.input, i.place from unnest(p_inputs) with ordinality as i(input, place)
  ), stored as (
    insert into run (run_id, root_run_id, depth, workflow_id, version_id, tenant, input, tags, priority, idempotency_key, parent_task_id, restarted_from, created_at, pending)
    select g.id, coalesce(v_outer.root_run_id, g.id), coalesce(v_outer.depth, 0), p_workflow_id, p_version_id, p_tenant, g.input, p_tags, p_priority, p_key, p_parent_task_id, p_restarted_from, p_now, v.tasks
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
  perform advance(null, startable(p_run_ids), null, p_now);
end
$$;
comment on function fencepost_private.start_roots(bigint[], timestamptz) is 'Starts the tasks of these runs that wait for no other.';

create function fencepost_private.startable(p_run_ids bigint[])
returns bigint[]
language sql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
  select coalesce(array_agg(t.task_id order by t.task_id), '{}')
  from task t
  where t.run_id = any (p_run_ids) and t.status = 'pending' and t.unmet = 0 and t.item is null
$$;
comment on function fencepost_private.startable(bigint[]) is 'The pending tasks of these runs that wait for no other.';

-- Why a task fails whose input goes to a workflow with this schema, also when it cannot be checked; null when it fits.
create function fencepost_private.input_failure(p_schema jsonb, p_input jsonb)
returns text
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
begin
  return 'JE003: ' || schema_problem(p_schema, p_input, 'input');
exception when sqlstate 'JE003' then
  return 'JE003: ' || sqlerrm;
end
$$;
comment on function fencepost_private.input_failure(jsonb, jsonb) is 'Why a task fails whose input does not fit the schema of its workflow or cannot be checked against it; null when it fits.';

-- The run of a task of kind workflow: returns its first tasks, or why it cannot be (a missing workflow, an unfit input, a
-- workflow that starts itself without end), which fails the task instead of whoever moved the run.
create function fencepost_private.start_child(
  p_task_id bigint, p_run_id bigint, p_workflow text, p_version int, p_input jsonb, p_now timestamptz, out failure text, out starts bigint[])
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
declare
  v_version record;
  v_outer   record;
  v_id      bigint;
begin
  starts := '{}';
  select r.tenant, r.priority, r.tags, r.depth into v_outer from run r where r.run_id = p_run_id;
  select w.workflow_id, v.version_id, v.definition into v_version
  from workflow w join workflow_version v on v.workflow_id = w.workflow_id and v.version = coalesce(p_version, w.latest_version)
  where w.name = p_workflow;
  failure := case
    when not found then format('JE002: workflow %s%s does not exist', p_workflow, ' version ' || p_version)
    when v_outer.depth >= 20 then 'JE003: child runs are nested at most 20 deep'
    when octet_length(p_input::text) > 1048576 then format('JE006: the input of %s is too large: %s bytes of at most 1048576', p_workflow, octet_length(p_input::text))
    else input_failure(v_version.definition -> 'input', p_input) end;
  if failure is not null then
    return;
  end if;
  v_id := (create_runs(v_version.workflow_id, v_version.version_id, v_outer.tenant, array[p_input], null, v_outer.tags, v_outer.priority, p_task_id, null, p_now))[1];
  update task t set child_run_id = v_id where t.task_id = p_task_id;
  starts := startable(array[v_id]);
end
$$;
comment on function fencepost_private.start_child(bigint, bigint, text, int, jsonb, timestamptz) is 'Makes the run that carries out a task of kind workflow; returns its first tasks, or why it cannot be.';
