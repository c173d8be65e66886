-- Starts tasks whose parents have all ended: each is skipped, gets a job, or begins to wait. Those of runs that are
-- paused, cancelled or compensating stay as they are. Returns the tasks that end at once, the first tasks of child runs,
-- and what changes in the runs' numbers.
--
-- The join rule: a task is skipped when its condition is false, or when it has parents and all of them were skipped.
-- A condition that is neither true nor false opens no gate: it fails its task, and so does an input, `over` or `until`
-- that cannot be evaluated.
--
-- What they need is read for some of them at once: see payloads_at_once.
create function fencepost_private.start_tasks(
  p_task_ids bigint[], p_now timestamptz, out ends fencepost_private.task_end[], out starts bigint[], out deltas fencepost_private.run_delta[])
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
  v_first int := 1;
  v_next  int;
  v_due   due_task[];
  v_kinds task_kind[];
  v_more  record;
begin
  ends := '{}';
  starts := '{}';
  deltas := '{}';
  while v_first <= cardinality(p_task_ids) loop
    v_next := v_first + payloads_at_once(v_due);
    v_due := due_tasks(p_task_ids[v_first : v_next - 1], p_now);
    v_first := v_next;
    ends := ends || array(select row(d.task_id, d.ends_as, null, d.reason)::task_end from unnest(v_due) as d where d.ends_as is not null);
    v_due := array(select d from unnest(v_due) as d where d.ends_as is null);
    v_kinds := array(select distinct d.kind from unnest(v_due) as d);
    if 'job' = any (v_kinds) then
      select q.ends, q.deltas into v_more from queue_tasks(array(select d from unnest(v_due) as d where d.kind = 'job'), p_now) as q;
      ends := ends || v_more.ends;
      deltas := deltas || v_more.deltas;
    end if;
    if v_kinds && array['approval', 'timer', 'signal', 'map', 'workflow']::task_kind[] then
      select w.ends, w.starts, w.deltas into v_more from await_tasks(array(select d from unnest(v_due) as d where d.kind <> 'job'), p_now) as w;
      ends := ends || v_more.ends;
      starts := starts || v_more.starts;
      deltas := deltas || v_more.deltas;
    end if;
  end loop;
end
$$;
comment on function fencepost_private.start_tasks(bigint[], timestamptz) is 'Starts tasks whose parents have ended; returns those that end at once, those of child runs, and what changes in the runs'' numbers.';

-- How many payloads to build next: those that make some 4 MB, if they are like the last ones. Each may be as large as its
-- type allows, an array holds a gigabyte, and what is larger than work_mem is sorted on disk.
create function fencepost_private.payloads_at_once(p_last fencepost_private.due_task[])
returns int
language sql stable
return least(500, greatest(1, coalesce(nullif(cardinality(p_last), 0) * 4e6 / pg_column_size(p_last), 100)))::int;
comment on function fencepost_private.payloads_at_once(fencepost_private.due_task[]) is 'How many payloads to build next, by the size of the last ones.';

-- A text as a moment in time, or null when it is none.
create function fencepost_private.try_time(p_text text)
returns timestamptz
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
begin
  return case when isfinite(p_text::timestamptz) then p_text::timestamptz end;
exception when data_exception then
  return null;
end
$$;
comment on function fencepost_private.try_time(text) is 'A text as a moment in time; null when it is none.';

-- Reads what the start of these tasks needs: conditions, payloads, times, items. Pending tasks without an unmet parent only.
create function fencepost_private.due_tasks(p_task_ids bigint[], p_now timestamptz)
returns fencepost_private.due_task[]
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
  v_due due_task[];
begin
  with due as materialized (
    select t.task_id, t.run_id, r.tenant, r.input as run_input, r.priority as run_priority, d.*,
           d.parents > 0 and t.skipped_parents = d.parents as all_skipped
    from unnest(p_task_ids) as i(task_id)
    cross join lateral (select t.* from task t where t.task_id = i.task_id offset 0) as t
    cross join lateral (select r.* from run r where r.run_id = t.run_id offset 0) as r
    cross join lateral (select d.* from workflow_task d where d.version_id = r.version_id and d.task_no = t.task_no offset 0) as d
    where t.status = 'pending' and t.unmet = 0 and t.item is null
      and r.paused_at is null and r.cancelled_at is null and r.compensating_at is null
  ), seen as materialized (
    select d.*, c.context, w.problem, d.all_skipped or w.holds is false as is_skipped
    from due d
    left join lateral (
      select run_context(d.run_id, d.task_no, d.refers_to) as context
      where not d.all_skipped and (d.when_path is not null or d.over_path is not null or d.until_path is not null or d.input is not null)
    ) as c on true
    cross join lateral decided(case when not d.all_skipped then d.when_path end, c.context) as w
  ), starting as materialized (
    select s.*, s.problem is null and not s.is_skipped as goes_on from seen s
  )
  select coalesce(array_agg(row(
    s.task_id, s.run_id, s.task_no, s.kind, s.tenant, s.type, coalesce(s.priority, s.run_priority, 5), s.max_attempts, s.timeout,
    case when not s.goes_on or s.kind not in ('job', 'workflow') then null
         when s.input is not null then filled.value
         else jsonb_build_object('input', s.run_input, 'tasks', parents.outputs) end,
    s.compensate is not null,
    case when s.is_skipped then 'skipped' when e.problem is not null then 'failed' end,
    case when s.all_skipped then 'all its parents were skipped' when s.is_skipped then format('its condition is false: %s', s.when_path) else e.problem end,
    p_now + s.expires_after,
    case when s.kind = 'timer' then coalesce(p_now + s.delay, t.until) end,
    s.signal,
    case when s.kind = 'map' then o.value end,
    case when s.kind = 'map' then filled.value end,
    s.child, s.child_version)::due_task order by s.task_id), '{}') into v_due
  from starting s
  cross join lateral try_filled(case when s.goes_on then s.input end, s.context, s.kind = 'map') as filled
  cross join lateral try_value(case when s.goes_on then s.over_path end, s.context) as o
  cross join lateral try_value(case when s.goes_on then s.until_path end, s.context) as u
  cross join lateral (select try_time(u.value #>> '{}') as until offset 0) as t
  cross join lateral (
    select case when not s.goes_on then s.problem
                when filled.problem is not null then filled.problem
                when o.problem is not null or u.problem is not null then concat_ws(': ', case s.kind when 'map' then 'over' else 'until' end || ' cannot be evaluated', o.problem, u.problem)
                when s.kind = 'map' and jsonb_typeof(o.value) is distinct from 'array' then format('over did not give an array but %s', described(o.value))
                when s.until_path is not null and t.until is null then format('until did not give a time but %s', described(u.value)) end as problem
    offset 0
  ) as e
  left join lateral (
    select coalesce(jsonb_object_agg(d.name, coalesce(p.output, 'null')) filter (where p.status in ('completed', 'failed')), '{}') as outputs
    from (select e.parent_no from workflow_edge e where e.version_id = s.version_id and e.child_no = s.task_no offset 0) as e
    cross join lateral (select t.status, t.output from task t where t.run_id = s.run_id and t.task_no = e.parent_no and t.item is null offset 0) as p
    cross join lateral (select d.name from workflow_task d where d.version_id = s.version_id and d.task_no = e.parent_no offset 0) as d
    where s.goes_on and s.kind in ('job', 'workflow') and s.input is null
  ) as parents on true;
  return v_due;
end
$$;
comment on function fencepost_private.due_tasks(bigint[], timestamptz) is 'What the start of these tasks needs, for those that may start now.';

-- Gives tasks their jobs. A payload that its type refuses fails the task instead of whoever moved the run.
create function fencepost_private.queue_tasks(p_due fencepost_private.due_task[], p_now timestamptz, out ends fencepost_private.task_end[], out deltas fencepost_private.run_delta[])
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
  v_jobs new_job[];
begin
  -- a statement of its own: the next one must see the types and lanes that it makes
  perform ensure_lane(n.type, n.priority) from (select distinct d.type, d.priority from unnest(p_due) as d order by d.type, d.priority) as n;
  with checked as materialized (
    select d.*, l.lane_id, l.type_id,
           case when octet_length(d.payload::text) > t.max_payload_bytes then format('JE006: the payload for %s is too large: %s bytes of at most %s', d.type, octet_length(d.payload::text), t.max_payload_bytes)
                when t.payload_check is not null and jsonb_path_match(d.payload, t.payload_check, silent => true) is not true
                then format('JE006: the payload for %s fails the check of its type: %s', d.type, t.payload_check) end as refusal
    from unnest(p_due) as d
    join job_type t on t.type = d.type
    join lane l on l.type_id = t.type_id and l.priority = d.priority and l.flow = 0
  )
  select array_agg(row(nextval('job_id_seq'), 1, c.type_id, c.lane_id, c.tenant, c.payload, null, null, c.max_attempts, c.timeout, null, c.run_id, c.task_id, null)::new_job order by c.task_id)
           filter (where c.refusal is null),
         coalesce(array_agg(row(c.task_id, 'failed', null, c.refusal)::task_end) filter (where c.refusal is not null), '{}')
    into v_jobs, ends
  from checked c;

  perform enqueue_rows(coalesce(v_jobs, '{}'::new_job[]), p_now, p_trusted => true);
  with queued as (
    update task t set status = 'queued', job_id = j.id, ready_at = p_now
    from unnest(v_jobs) as j
    where t.task_id = any (array[j.task_id])
    returning t.run_id, t.kind
  )
  select coalesce(array_agg(d.delta), '{}') into deltas
  from (select row(q.run_id, -count(*) filter (where q.kind not in ('item', 'compensation')), count(*), 0, 0, 0, 0, 0, 0)::run_delta as delta
        from queued q group by q.run_id) as d;
  if exists (select from unnest(p_due) as d where d.keeps_input) then
    update task t set input = d.payload from unnest(p_due) as d where d.keeps_input and t.task_id = any (array[d.task_id]);
  end if;
end
$$;
comment on function fencepost_private.queue_tasks(fencepost_private.due_task[], timestamptz) is 'Enqueues the jobs of these tasks; those whose payload is refused fail.';

-- Lets approvals, timers, signals, maps and child workflows begin to wait. What is there already ends at once.
create function fencepost_private.await_tasks(
  p_due fencepost_private.due_task[], p_now timestamptz, out ends fencepost_private.task_end[], out starts bigint[], out deltas fencepost_private.run_delta[])
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
  v_unfit task_end[];
  v_more  record;
  v_child record;
begin
  with waiting as (
    update task t
    set status = 'waiting', ready_at = p_now, due_at = coalesce(d.due_at, d.expires_at),
        items = array_length_of(d.items), items_started = 0, items_open = array_length_of(d.items), items_failed = 0
    from unnest(p_due) as d
    where t.task_id = any (array[d.task_id])
    returning t.task_id, t.run_id
  ), asked as (
    insert into approval (run_id, task_id, reason, requested_at, requested_by, expires_at)
    select d.run_id, d.task_id, coalesce(w.reason, w.name), p_now, 'workflow', d.expires_at
    from unnest(p_due) as d
    cross join lateral (select r.version_id from run r where r.run_id = d.run_id offset 0) as r
    cross join lateral (select w.name, w.reason from workflow_task w where w.version_id = r.version_id and w.task_no = d.task_no offset 0) as w
    where d.kind = 'approval'
    order by d.task_id
    returning approval_id, run_id, task_id, expires_at
  ), told as (
    insert into event (xid, at, tenant, kind, run_id, task_id, data)
    select xid(), p_now, r.tenant, 'approval.requested', a.run_id, a.task_id, jsonb_strip_nulls(jsonb_build_object('approval_id', a.approval_id, 'expires_at', a.expires_at))
    from asked a cross join lateral (select r.tenant from run r where r.run_id = a.run_id offset 0) as r
  ), maps as materialized (
    select d.task_id, d.run_id, d.task_no, d.items, d.template,
           -- only for expressions that read the item and something else at once
           case when exists (select from template_paths(d.template) as p where not path_roots(p::jsonpath) <@ '{item,index}') then run_context(d.run_id, d.task_no, null) else '{}' end as context
    from unnest(p_due) as d
    where d.kind = 'map'
  ), itemised as (
    insert into task (run_id, task_no, kind, status, parent_task_id, item, input, error)
    select o.run_id, o.task_no, 'item', 'pending', o.task_id, o.item, case when o.template is null then o.own else f.value end, f.problem
    from (
      -- ordered first: what is filled in may be large
      select m.*, i.place - 1 as item, jsonb_build_object('item', i.element, 'index', i.place - 1) as own
      from (select m.task_id, m.run_id, m.task_no, m.template, m.context, m.items from maps m order by m.task_id offset 0) as m
      cross join lateral jsonb_array_elements(m.items) with ordinality as i(element, place)
      offset 0
    ) as o
    cross join lateral try_filled(o.template, o.context || o.own, false) as f
    returning parent_task_id, item, error
  )
  select coalesce(array_agg(d.delta), '{}'),
         array(select distinct on (i.parent_task_id) row(i.parent_task_id, 'failed', null, format('item %s: %s', i.item, i.error))::task_end
               from itemised i where i.error is not null order by i.parent_task_id, i.item)
    into deltas, v_unfit
  from (select row(w.run_id, -count(*), 0, count(*), 0, 0, 0, 0, 0)::run_delta as delta from waiting w group by w.run_id) as d;
  -- one item that cannot be given its input fails the map before any begins
  delete from task t where t.parent_task_id = any (array(select u.task_id from unnest(v_unfit) as u));
  update task t set items = null, items_open = null where t.task_id = any (array(select u.task_id from unnest(v_unfit) as u));

  select coalesce(array_agg(row(e.task_id, e.status, e.output, e.error)::task_end), '{}') into ends
  from (
    select d.task_id, 'completed' as status, to_jsonb(d.due_at) as output, null as error from unnest(p_due) as d where d.kind = 'timer' and d.due_at <= p_now
    union all
    select d.task_id, 'completed', '[]'::jsonb, null from unnest(p_due) as d where d.kind = 'map' and d.items = '[]'
    union all
    select s.task_id, 'completed', s.payload, null
    from take_signals(array(select d.task_id from unnest(p_due) as d where d.kind = 'signal')) as s
  ) as e;

  select i.ends, i.deltas into v_more
  from start_items(array(
    select d.task_id from unnest(p_due) as d
    where d.kind = 'map' and d.items <> '[]' and not exists (select from unnest(v_unfit) as u where u.task_id = d.task_id)), p_now) as i;
  ends := ends || v_unfit || v_more.ends;
  deltas := deltas || v_more.deltas;

  starts := '{}';
  for v_child in select d.task_id, d.run_id, d.payload, d.child, d.child_version from unnest(p_due) as d where d.kind = 'workflow' order by d.task_id loop
    select c.failure, c.starts into v_more from start_child(v_child.task_id, v_child.run_id, v_child.child, v_child.child_version, v_child.payload, p_now) as c;
    starts := starts || v_more.starts;
    if v_more.failure is not null then
      ends := ends || row(v_child.task_id, 'failed', null, v_more.failure)::task_end;
    end if;
  end loop;
end
$$;
comment on function fencepost_private.await_tasks(fencepost_private.due_task[], timestamptz) is 'Lets tasks that are no jobs begin to wait; returns those that end at once, and the first tasks of child runs.';
