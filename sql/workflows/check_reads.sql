-- A path may read a task only where that has ended for sure: in tasks that come after it, directly or not. Elsewhere it
-- would find the output or nothing, as chance has it. p_order are the places of the tasks in topological order.
-- Errors: JE008, naming the place.
create function fencepost_private.check_reads(p_definition jsonb, p_order int[])
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
declare
  v_readers text[];
  v_places  text[];
  v_paths   text[];
  v_names   text[];
  v_targets text[];
  v_task    record;
  v_before  bit varying;
  v_known   bit varying[] := array_fill(null::bit varying, array[cardinality(p_order)]);   -- by task: which targets come before it, or are it
begin
  -- what is read of others than direct parents
  select array_agg(t.name), array_agg(p.key), array_agg(p.path), array_agg(n.name), array_agg(distinct n.name)
    into v_readers, v_places, v_paths, v_names, v_targets
  from jsonb_each(p_definition -> 'tasks') as t(name, spec)
  cross join lateral (
    select k.key, t.spec ->> k.key as path from unnest(array['when', 'over', 'until']) as k(key) where t.spec ? k.key
    union all
    select 'input', i.path from template_paths(t.spec -> 'input') as i(path)
  ) as p
  cross join lateral (select distinct substr(r, position('.' in r) + 1) as name from unnest(path_roots(p.path::jsonpath)) as r where r ~ '^(tasks|errors)\.') as n
  where not coalesce(t.spec -> 'after' ? n.name, false);
  if v_targets is null then
    return;
  end if;

  -- parents first: what comes before a task is its parents and what comes before them
  for v_task in
    with named as materialized (
      select t.name, t.spec -> 'after' as parents, o.task_no::int, g.bit::int
      from jsonb_each(p_definition -> 'tasks') with ordinality as t(name, spec, place)
      join unnest(p_order) with ordinality as o(place, task_no) on o.place = t.place
      left join unnest(v_targets) with ordinality as g(name, bit) on g.name = t.name
    ), above as (
      select c.task_no, array_agg(p.task_no) as parents
      from named c
      cross join lateral jsonb_array_elements_text(coalesce(c.parents, '[]')) as a(parent)
      join named p on p.name = a.parent
      group by c.task_no
    ), reads as (
      select r.reader, array_agg(g.bit::int) as bits, array_agg(r.name) as names, array_agg(r.place) as places, array_agg(r.path) as paths
      from unnest(v_readers, v_places, v_paths, v_names) as r(reader, place, path, name)
      join unnest(v_targets) with ordinality as g(name, bit) on g.name = r.name
      group by r.reader
    )
    select n.task_no, n.name, n.bit, coalesce(a.parents, '{}') as parents, coalesce(r.bits, '{}') as bits, r.names, r.places, r.paths
    from named n left join above a on a.task_no = n.task_no left join reads r on r.reader = n.name
    order by n.task_no
  loop
    v_before := repeat('0', cardinality(v_targets))::bit varying;
    for v_parent in 1..cardinality(v_task.parents) loop
      v_before := v_before | v_known[v_task.parents[v_parent]];
    end loop;
    for v_read in 1..cardinality(v_task.bits) loop
      if get_bit(v_before, v_task.bits[v_read] - 1) = 0 then
        perform raise_error('JE008', format('task %s reads task %s, which does not come before it', v_task.name, v_task.names[v_read]),
          format('at tasks.%s.%s: received %s', v_task.name, v_task.places[v_read], quote_literal(left(v_task.paths[v_read], 200))),
          format('Name %s in after, or a task that comes after it.', v_task.names[v_read]));
      end if;
    end loop;
    v_known[v_task.task_no] := case when v_task.bit is null then v_before else set_bit(v_before, v_task.bit - 1, 1) end;
  end loop;
end
$$;
comment on function fencepost_private.check_reads(jsonb, int[]) is 'Raises JE008 for a path that reads a task which does not come before its own.';
