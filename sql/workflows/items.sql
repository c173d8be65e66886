-- Maps: one job for each element of an array, at most max_parallel at once. The map's row counts its items once a
-- batch, however many of them ended in it.

create function fencepost_private.array_length_of(p_value jsonb)
returns int
language sql
immutable
return case jsonb_typeof(p_value) when 'array' then jsonb_array_length(p_value) end;
comment on function fencepost_private.array_length_of(jsonb) is 'Number of elements of a JSON array; null for anything else.';

create function fencepost_private.map_place(p_task_id bigint) returns text
language sql immutable
return 'map ' || p_task_id;
comment on function fencepost_private.map_place(bigint) is 'What a parked item of this map waits for.';

-- Starts the next items of these maps, as many as max_parallel leaves room for: first those that came back from the
-- dead and were parked for room, then new ones, a few at once like all payloads.
create function fencepost_private.start_items(p_map_ids bigint[], p_now timestamptz, out ends fencepost_private.task_end[], out deltas fencepost_private.run_delta[])
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
  v_maps bigint[] := p_map_ids;
  v_held bigint[];
  v_due  due_task[];
  v_more record;
begin
  ends := '{}';
  deltas := '{}';
  if cardinality(p_map_ids) = 0 then
    return;
  end if;
  v_held := array(
    select h.id from room_in(p_map_ids) as w
    cross join lateral (select p.id from parked p where p.waits_for = w.place order by p.id limit w.room) as h
    where w.held > 0 and w.room > 0);
  if cardinality(v_held) > 0 then
    perform unpark_jobs(v_held);
  end if;

  while cardinality(v_maps) > 0 loop
    with room as materialized (
      select m.task_id, m.run_id, m.items_started as first_item, least(m.items - m.items_started, w.room) as wanted,
             r.tenant, d.type, coalesce(d.priority, r.priority, 5) as priority, d.max_attempts, d.timeout
      from room_in(v_maps) as w
      cross join lateral (select m.* from task m where m.task_id = w.task_id offset 0) as m
      cross join lateral (select r.* from run r where r.run_id = m.run_id offset 0) as r
      cross join lateral (select d.* from workflow_task d where d.version_id = r.version_id and d.task_no = m.task_no offset 0) as d
      where w.room > 0 and m.items_started < m.items
    ), shared as materialized (
      select r.*, greatest(0, least(r.wanted, payloads_at_once(v_due) - (sum(r.wanted) over (order by r.task_id) - r.wanted)))::int as many from room r
    ), moved as (
      update task m set items_started = m.items_started + s.many from shared s where m.task_id = any (array[s.task_id]) and s.many > 0
    )
    select array(
             select row(t.task_id, t.run_id, t.task_no, 'item', s.tenant, s.type, s.priority, s.max_attempts, s.timeout, t.input,
                        false, null, null, null, null, null, null, null, null, null)::due_task
             from shared s
             cross join lateral (
               select t.* from task t where t.parent_task_id = s.task_id and t.item >= s.first_item and t.item < s.first_item + s.many offset 0
             ) as t
             order by t.task_id),
           array(select s.task_id from shared s where s.many < s.wanted order by s.task_id)
      into v_due, v_maps;
    if cardinality(v_due) > 0 then
      select q.ends, q.deltas into v_more from queue_tasks(v_due, p_now) as q;
      ends := ends || v_more.ends;
      deltas := deltas || v_more.deltas;
    end if;
  end loop;
end
$$;
comment on function fencepost_private.start_items(bigint[], timestamptz) is 'Enqueues the next items of these maps, within max_parallel.';

-- For how many more items each of these maps has room, what its parked items wait for, and how many those are. Maps of
-- runs that are paused, cancelled or compensating have none.
create function fencepost_private.room_in(p_map_ids bigint[])
returns table (task_id bigint, room int, place text, held int)
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
#variable_conflict use_column
begin
  return query
  select m.task_id, coalesce(d.max_parallel, m.items) - (m.items_started - (m.items - m.items_open) - coalesce(h.n, 0)), h.place, coalesce(h.n, 0)
  from unnest(p_map_ids) as i(task_id)
  cross join lateral (select m.* from task m where m.task_id = i.task_id offset 0) as m
  cross join lateral (select r.* from run r where r.run_id = m.run_id offset 0) as r
  cross join lateral (select d.* from workflow_task d where d.version_id = r.version_id and d.task_no = m.task_no offset 0) as d
  left join lateral (
    select map_place(m.task_id) as place, count(*)::int as n from parked p where p.waits_for = map_place(m.task_id)
  ) as h on d.max_parallel is not null
  where m.status = 'waiting' and r.paused_at is null and r.cancelled_at is null and r.compensating_at is null;
end
$$;
comment on function fencepost_private.room_in(bigint[]) is 'How many more items may run of each of these maps, and how many are parked for room.';

-- Counts ended items on their maps, starts the next ones, and ends maps that have none left: completed with the outputs
-- in order, or failed when an item did.
create function fencepost_private.count_items(p_ended fencepost_private.ended_task[], p_now timestamptz, out ends fencepost_private.task_end[], out deltas fencepost_private.run_delta[])
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
  v_maps bigint[];
  v_done bigint[];
  v_more record;
begin
  ends := '{}';
  deltas := '{}';
  with ended as materialized (
    select e.parent_task_id as map_id, count(*)::int as n, (count(*) filter (where e.status <> 'completed'))::int as failed
    from unnest(p_ended) as e where e.kind = 'item' group by e.parent_task_id order by e.parent_task_id
  ), counted as (
    update task m set items_open = m.items_open - e.n, items_failed = m.items_failed + e.failed
    from ended e where m.task_id = any (array[e.map_id])
    returning m.task_id, m.items_open
  )
  select array_agg(c.task_id) filter (where c.items_open > 0), array_agg(c.task_id) filter (where c.items_open = 0) into v_maps, v_done from counted c;
  if v_maps is not null then
    select i.ends, i.deltas into v_more from start_items(v_maps, p_now) as i;
    ends := v_more.ends;
    deltas := v_more.deltas;
  end if;
  if v_done is not null then
    ends := ends || array(
      select row(m.task_id, case when m.items_failed = 0 then 'completed' else 'failed' end,
                 case when m.items_failed = 0 then (select jsonb_agg(coalesce(t.output, 'null') order by t.item) from task t where t.parent_task_id = m.task_id) end,
                 case when m.items_failed > 0 then format('%s of %s items failed', m.items_failed, m.items) end)::task_end
      from unnest(v_done) as d(task_id) cross join lateral (select m.* from task m where m.task_id = d.task_id offset 0) as m
      order by m.task_id);
  end if;
end
$$;
comment on function fencepost_private.count_items(fencepost_private.ended_task[], timestamptz) is 'Counts ended items on their maps, starts further ones, and returns the maps that end.';
