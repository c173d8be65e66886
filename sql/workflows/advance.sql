-- How runs move, set-wise, in the transaction of whatever moved them:
--
--   ends    tasks that end now, and how        ->  their children lose an unmet parent; maps start their next items
--   starts  tasks whose parents have all ended ->  skipped, queued as a job, or waiting for something
--
-- Starting a task may end it at once (a condition is false, a signal is there already), so this goes round until nothing
-- moves: at most as often as the graph is deep. Then the runs' numbers and status are settled, and child runs that
-- ended end the task that started them, which goes round again.
--
-- Times are written and read in UTC, whoever's session it is.
--
-- Plans: these statements may be planned when their tables are empty, and are kept while they grow. So the functions of
-- this folder turn the planner's other ways off in their heads: no statement of theirs is better served by reading a
-- whole table, or by hashing or sorting one, than by its index. enable_seqscan alone is enough where a statement names a
-- run or two; whatever joins many rows says hash and merge join too, and force_generic_plan where it is called so often
-- that planning it would cost more than running it. What is looked up by key stands in a lateral subquery with OFFSET 0;
-- what is updated by key is joined by `key = any (array[…])`. Either can only be an index scan, key by key: a plain join
-- may as well read the whole table through an index, while it seems small.
-- Locks: the caller holds the root runs; tasks are locked in id order, then jobs.
create function fencepost_private.advance(p_ends fencepost_private.task_end[], p_starts bigint[], p_deltas fencepost_private.run_delta[], p_now timestamptz)
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set timezone = 'UTC'
as $$
declare
  v_ends   task_end[] := coalesce(p_ends, '{}'::task_end[]);
  v_starts bigint[] := coalesce(p_starts, '{}'::bigint[]);
  v_deltas run_delta[] := coalesce(p_deltas, '{}'::run_delta[]);
  v_ended  ended_task[];
  v_more   record;
begin
  loop
    while cardinality(v_ends) > 0 or cardinality(v_starts) > 0 loop
      if cardinality(v_ends) > 0 then
        v_ended := end_tasks(v_ends, p_now);
        v_deltas := v_deltas || deltas_of(v_ended);
        v_starts := v_starts || release_children(v_ended);
        select c.ends, c.deltas into v_more from count_items(v_ended, p_now) as c;
        v_ends := v_more.ends;
        v_deltas := v_deltas || v_more.deltas;
        if exists (select from unnest(v_ended) as e where e.kind = 'compensation' and e.status = 'completed') then
          select u.ends, u.deltas into v_more from undo_runs(array(select distinct e.run_id from unnest(v_ended) as e where e.kind = 'compensation'), p_now) as u;
          v_ends := v_ends || v_more.ends;
          v_deltas := v_deltas || v_more.deltas;
        end if;
      end if;
      if cardinality(v_starts) > 0 then
        select s.ends, s.starts, s.deltas into v_more from start_tasks(v_starts, p_now) as s;
        v_starts := v_more.starts;
        v_ends := v_ends || v_more.ends;
        v_deltas := v_deltas || v_more.deltas;
      end if;
    end loop;
    exit when cardinality(v_deltas) = 0;
    v_ends := settle_runs(v_deltas, p_now);
    v_deltas := '{}';
  end loop;
end
$$;
comment on function fencepost_private.advance(fencepost_private.task_end[], bigint[], fencepost_private.run_delta[], timestamptz)
  is 'Moves runs on: ends tasks, starts those that became ready, settles the runs. The caller holds the root runs.';

-- Jobs of tasks that ended. A dead letter fails its task, so does nothing else; a discarded one had failed it before.
create function fencepost_private.jobs_ended(p_ends fencepost_private.task_end[], p_now timestamptz) returns void
language plpgsql volatile
set search_path = fencepost_private, pg_temp
as $$
begin
  if cardinality(p_ends) > 0 then
    perform advance(p_ends, null, null, p_now);
  end if;
end
$$;
comment on function fencepost_private.jobs_ended(fencepost_private.task_end[], timestamptz) is 'Called by every ending of jobs with the tasks that end by it.';

-- Ends tasks that are still alive; others are passed over, so nothing ends twice.
create function fencepost_private.end_tasks(p_ends fencepost_private.task_end[], p_now timestamptz)
returns fencepost_private.ended_task[]
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
  v_ended ended_task[];
begin
  with given as materialized (
    select distinct on (e.task_id) e.task_id, e.status, e.output, e.error, t.status as was, t.released as was_released, t.kind, t.run_id, r.version_id, r.tenant, r.cancelled_at is not null as run_cancelled, d.continues, d.name
    from unnest(p_ends) as e
    cross join lateral (select t.* from task t where t.task_id = e.task_id offset 0) as t
    cross join lateral (select r.* from run r where r.run_id = t.run_id offset 0) as r
    cross join lateral (select d.* from workflow_task d where d.version_id = r.version_id and d.task_no = t.task_no offset 0) as d
    where t.status in ('pending', 'queued', 'waiting')
    order by e.task_id
  ), changed as (
    update task t
    set status = g.status, output = g.output, error = g.error, finished_at = p_now, due_at = null, gate_id = null,
        released = t.released or t.item is null and (g.status in ('completed', 'skipped') or g.status = 'failed' and g.continues)
    from given g
    where t.task_id = any (array[g.task_id])
    returning t.task_id, t.run_id, g.version_id, t.task_no, t.kind, t.parent_task_id, g.was, t.status, t.released,
              t.released and not g.was_released and not g.run_cancelled as releases, g.tenant, g.name, t.error
  ), told as (
    insert into event (xid, at, tenant, kind, run_id, task_id, data)
    select xid(), p_now, c.tenant, 'task.skipped', c.run_id, c.task_id, jsonb_build_object('task', c.name, 'reason', c.error)
    from changed c where c.status = 'skipped'
  ), withdrawn as (
    update approval a set status = 'withdrawn', decided_at = p_now
    where a.approval_id = any (array(
      select o.approval_id
      from changed c cross join lateral (select a.approval_id, a.status from approval a where a.task_id = c.task_id offset 0) as o
      where c.status in ('cancelled', 'failed') and o.status = 'pending'))
  )
  select array_agg(row(c.task_id, c.run_id, c.version_id, c.task_no, c.kind, c.parent_task_id, c.was, c.status, c.released, c.releases)::ended_task order by c.task_id)
    into v_ended
  from changed c;
  return coalesce(v_ended, '{}'::ended_task[]);
end
$$;
comment on function fencepost_private.end_tasks(fencepost_private.task_end[], timestamptz) is 'Ends tasks that are alive and returns them with what they were before.';

-- What ended tasks change in the numbers of their runs. Items count only as queued: their map stands for them.
create function fencepost_private.deltas_of(p_ended fencepost_private.ended_task[])
returns fencepost_private.run_delta[]
language sql
immutable
set search_path = fencepost_private, pg_temp
as $$
  select coalesce(array_agg(d.delta), '{}')
  from (
    select row(e.run_id,
      -count(*) filter (where e.was = 'pending' and e.kind not in ('item', 'compensation')),
      -count(*) filter (where e.was = 'queued'),
      -count(*) filter (where e.was = 'waiting'),
      count(*) filter (where e.kind not in ('item', 'compensation') and (e.status in ('completed', 'skipped') or e.status = 'failed' and e.released)),
      count(*) filter (where e.kind not in ('item', 'compensation') and e.status = 'failed' and not e.released),
      count(*) filter (where e.kind not in ('item', 'compensation') and e.status = 'cancelled'),
      -count(*) filter (where e.kind = 'compensation' and e.status = 'completed'),
      count(*) filter (where e.kind = 'compensation' and e.status in ('failed', 'cancelled')))::run_delta as delta
    from unnest(p_ended) as e
    group by e.run_id
  ) as d
$$;
comment on function fencepost_private.deltas_of(fencepost_private.ended_task[]) is 'What ended tasks change in the numbers of their runs.';

-- Takes an unmet parent from the children of tasks that ended well. Returns the children that have none left.
-- Locks: those children, in the order of runs and tasks. A statement of its own: it sees what others did before it.
create function fencepost_private.release_children(p_ended fencepost_private.ended_task[])
returns bigint[]
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
  v_ready bigint[];
begin
  with hit as materialized (
    select c.task_id, count(*)::int as met, (count(*) filter (where e.status = 'skipped'))::int as skipped
    from unnest(p_ended) as e
    cross join lateral (select w.child_no from workflow_edge w where w.version_id = e.version_id and w.parent_no = e.task_no offset 0) as w
    cross join lateral (select t.task_id from task t where t.run_id = e.run_id and t.task_no = w.child_no and t.item is null offset 0) as c
    where e.releases
    group by c.task_id
    order by c.task_id
  ), met as (
    update task t set unmet = t.unmet - h.met, skipped_parents = t.skipped_parents + h.skipped
    from hit h
    where t.task_id = any (array[h.task_id]) and t.status = 'pending'
    returning t.task_id, t.unmet
  )
  select array_agg(m.task_id order by m.task_id) filter (where m.unmet = 0) into v_ready from met m;
  return coalesce(v_ready, '{}'::bigint[]);
end
$$;
comment on function fencepost_private.release_children(fencepost_private.ended_task[]) is 'Counts ended parents off their children and returns the children that have no unmet parent left.';
