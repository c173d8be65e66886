-- Publishes a definition as the next version of a workflow, and returns the version. Publishing an equal definition
-- again returns the version that has it and changes nothing. The definition is checked whole before anything is
-- written: keys, kinds, names, references, cycles (named), paths and what they read, intervals, numbers, sizes.
--
-- Locks: the workflow's row, so that two publications get two numbers; runs are started meanwhile.
-- Errors: JE003 (name), JE008 (definition; the message names the place).
create function fencepost.publish_workflow(name text, definition jsonb)
returns int
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_now      timestamptz := fencepost_private.now();
  v_workflow record;
  v_version  workflow_version;
  v_order    int[];
begin
  if publish_workflow.name is null or publish_workflow.name !~ '^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,199}$' then
    perform raise_error('JE003', 'a workflow needs a name such as order.fulfil', format('received name = %s', coalesce(quote_literal(left(publish_workflow.name, 250)), 'null')),
      'Use 1 to 200 letters, digits and any of _ . : / - and start with a letter, digit or underscore.');
  end if;
  perform check_definition(publish_workflow.definition);
  v_order := task_order(publish_workflow.definition);
  perform check_reads(publish_workflow.definition, v_order);

  insert into workflow (name, created_at) values (publish_workflow.name, v_now) on conflict do nothing;
  select w.workflow_id, w.latest_version into v_workflow from workflow w where w.name = publish_workflow.name for no key update;
  select v.* into v_version from workflow_version v
  where v.workflow_id = v_workflow.workflow_id and v.checksum = md5(publish_workflow.definition::text);
  if found then
    return v_version.version;
  end if;

  insert into workflow_version (workflow_id, version, definition, checksum, tasks, compensates, created_at, created_by)
  values (v_workflow.workflow_id, v_workflow.latest_version + 1, publish_workflow.definition, md5(publish_workflow.definition::text),
          cardinality(v_order), publish_workflow.definition ->> 'on_failure' is not distinct from 'compensate', v_now, actor())
  returning * into v_version;
  perform store_tasks(v_version.version_id, publish_workflow.definition, v_order);
  -- now, so that no run has to make a type or lane while others wait for the run
  perform ensure_lane(n.type, n.priority)
  from (
    select d.type, coalesce(d.priority, 5) as priority from workflow_task d where d.version_id = v_version.version_id and d.type is not null
    union
    select d.compensate, coalesce(d.priority, 5) from workflow_task d where d.version_id = v_version.version_id and d.compensate is not null
    order by 1, 2
  ) as n;
  update workflow w set latest_version = v_version.version where w.workflow_id = v_workflow.workflow_id;
  return v_version.version;
end
$$;
comment on function fencepost.publish_workflow(text, jsonb)
  is 'Publishes a definition as the next version of a workflow and returns that; an equal one returns the version that has it. Raises JE003, JE008.';

-- Takes a checked definition apart into workflow_task and workflow_edge, numbered in topological order.
create function fencepost_private.store_tasks(p_version_id int, p_definition jsonb, p_order int[])
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
begin
  with named as materialized (
    select t.name, t.spec, t.place::int from jsonb_each(p_definition -> 'tasks') with ordinality as t(name, spec, place)
  ), numbered as materialized (
    select n.name, n.spec, o.task_no::int as task_no
    from named n join unnest(p_order) with ordinality as o(place, task_no) on o.place = n.place
  ), edges as materialized (
    select distinct p.task_no as parent_no, c.task_no as child_no
    from numbered c
    cross join lateral jsonb_array_elements_text(coalesce(c.spec -> 'after', '[]')) as a(parent)
    join numbered p on p.name = a.parent
  ), stored_edges as (
    insert into workflow_edge (version_id, parent_no, child_no) select p_version_id, e.parent_no, e.child_no from edges e
  ), parents as (
    select e.child_no, count(*)::int as n from edges e group by e.child_no
  ), children as (
    select e.parent_no, count(*)::int as n from edges e group by e.parent_no
  )
  insert into workflow_task (version_id, task_no, name, kind, parents, children, type, when_path, over_path, input, refers_to, continues, compensate,
                             priority, max_attempts, timeout, expires_after, on_expiry, on_reject, reason, delay, until_path, signal, max_parallel, child, child_version)
  select p_version_id, n.task_no, n.name, coalesce(n.spec ->> 'kind', 'job')::task_kind, coalesce(p.n, 0), coalesce(c.n, 0),
         n.spec ->> 'type', (n.spec ->> 'when')::jsonpath, (n.spec ->> 'over')::jsonpath, n.spec -> 'input', tasks_read(array_remove(array[n.spec ->> 'when', n.spec ->> 'over', n.spec ->> 'until'], null) || array(select template_paths(n.spec -> 'input'))),
         coalesce(n.spec ->> 'on_failure' = 'continue', false), n.spec ->> 'compensate',
         (n.spec ->> 'priority')::numeric::int, (n.spec #>> '{retry,max_attempts}')::numeric::int, (n.spec ->> 'timeout')::interval,
         (n.spec ->> 'expires_after')::interval, coalesce(n.spec ->> 'on_expiry', 'reject'), coalesce(n.spec ->> 'on_reject', 'fail'), n.spec ->> 'reason',
         (n.spec ->> 'delay')::interval, (n.spec ->> 'until')::jsonpath, n.spec ->> 'signal', (n.spec ->> 'max_parallel')::numeric::int,
         n.spec ->> 'workflow', (n.spec ->> 'version')::numeric::int
  from numbered n
  left join parents p on p.child_no = n.task_no
  left join children c on c.parent_no = n.task_no
  order by n.task_no;
end
$$;
comment on function fencepost_private.store_tasks(int, jsonb, int[]) is 'Stores the tasks and edges of a checked definition in topological order.';

-- Numbers the tasks so that parents come first: returns, in that order, their places in the definition.
-- Errors: JE008 when there is a cycle, which is named.
create function fencepost_private.task_order(p_definition jsonb)
returns int[]
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
declare
  v_names  text[] := array(select t.name from jsonb_each(p_definition -> 'tasks') with ordinality as t(name, spec, place) order by t.place);
  v_count  int := cardinality(v_names);
  v_unmet  int[];
  v_first  int[];          -- where the children of each task begin in v_child
  v_child  int[];
  v_queue  int[];
  v_head   int := 1;
  v_tail   int := 0;
  v_task   int;
  v_walk   text[] := '{}'::text[];
begin
  with edges as materialized (
    select distinct p.place::int as parent, c.place::int as child
    from jsonb_each(p_definition -> 'tasks') with ordinality as c(name, spec, place)
    cross join lateral jsonb_array_elements_text(coalesce(c.spec -> 'after', '[]')) as a(parent)
    join unnest(v_names) with ordinality as p(name, place) on p.name = a.parent
  )
  select array(select coalesce(e.n, 0)::int from generate_series(1, v_count) as g(place)
               left join (select child, count(*) as n from edges group by child) as e on e.child = g.place order by g.place),
         array(select e.child from edges e order by e.parent, e.child),
         array(select 1 + coalesce(sum(coalesce(e.n, 0)) over (order by g.place rows between unbounded preceding and 1 preceding), 0)::int
               from generate_series(1, v_count + 1) as g(place)
               left join (select parent, count(*) as n from edges group by parent) as e on e.parent = g.place order by g.place)
    into v_unmet, v_child, v_first;

  v_queue := array_fill(0, array[v_count]);
  for v_place in 1..v_count loop
    if v_unmet[v_place] = 0 then
      v_tail := v_tail + 1;
      v_queue[v_tail] := v_place;
    end if;
  end loop;
  while v_head <= v_tail loop
    v_task := v_queue[v_head];
    v_head := v_head + 1;
    for v_edge in v_first[v_task]..v_first[v_task + 1] - 1 loop
      v_unmet[v_child[v_edge]] := v_unmet[v_child[v_edge]] - 1;
      if v_unmet[v_child[v_edge]] = 0 then
        v_tail := v_tail + 1;
        v_queue[v_tail] := v_child[v_edge];
      end if;
    end loop;
  end loop;
  if v_tail = v_count then
    return v_queue;
  end if;

  -- what is left holds a cycle: walk from parent to parent until a task comes round again
  select t.place into v_task from unnest(v_unmet) with ordinality as t(unmet, place) where t.unmet > 0 order by t.place limit 1;
  while not v_names[v_task] = any (v_walk) loop
    v_walk := v_names[v_task] || v_walk;
    select p.place into v_task
    from jsonb_array_elements_text(p_definition -> 'tasks' -> v_names[v_task] -> 'after') as a(parent)
    join unnest(v_names, v_unmet) with ordinality as p(name, unmet, place) on p.name = a.parent and p.unmet > 0
    limit 1;
  end loop;
  v_walk := v_names[v_task] || v_walk[1:array_position(v_walk, v_names[v_task])];
  perform raise_error('JE008', format('tasks wait for each other in a cycle: %s', array_to_string(v_walk, ' -> ')),
    format('tasks.%s.after', v_walk[array_upper(v_walk, 1)]), 'Take one of these references away.');
  return null;   -- never reached
end
$$;
comment on function fencepost_private.task_order(jsonb) is 'A topological order of a definition''s tasks, as places in it. Raises JE008 naming a cycle.';
