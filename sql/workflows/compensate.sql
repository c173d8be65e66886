-- Undoing. Once a failed run of a workflow with on_failure "compensate" has nothing queued, what still waits is cancelled
-- and the completed tasks that name `compensate` are undone one after another, children before parents, each with the
-- input and the output that it had. An undoing is a job like any other: retried, dead-lettered when it cannot be done
-- (the run is then failed), and replayed from there.
--
-- Runs inside of it that are still alive are cancelled, but for those of workflows that undo themselves: what is alive in
-- these is cancelled, so that they have failed and do so. The first undoing waits until the last of them has ended.
create function fencepost_private.begin_compensation(p_run_id bigint, p_now timestamptz)
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
declare
  v_inner bigint[];
  v_more  record;
begin
  update run r set compensating_at = p_now, finished_at = null
  where r.run_id = p_run_id and r.compensating_at is null and r.cancelled_at is null;
  if not found then
    return;      -- another run of its family had it cancelled meanwhile
  end if;
  with undo as (
    insert into task (run_id, task_no, kind, status, parent_task_id, item)
    select t.run_id, t.task_no, 'compensation', 'pending', t.task_id, 0
    from task t
    join run r on r.run_id = t.run_id
    join workflow_task d on d.version_id = r.version_id and d.task_no = t.task_no
    where t.run_id = p_run_id and t.status = 'completed' and t.item is null and d.compensate is not null
    returning task_id
  )
  update run r set undoing = (select count(*) from undo) where r.run_id = p_run_id;

  perform advance(array(
    select row(t.task_id, 'cancelled', null, 'the run is being compensated')::task_end
    from task t where t.run_id = p_run_id and t.status in ('pending', 'waiting') and t.kind <> 'compensation' order by t.task_id), null, null, p_now);
  with stopped as (
    update run c
    set cancelled_at = case when v.compensates then null else p_now end, paused_at = null, reason = 'the run around it is being compensated'
    from workflow_version v
    where c.run_id = any (run_family(p_run_id)) and c.run_id <> p_run_id and v.version_id = c.version_id
      and c.finished_at is null and c.cancelled_at is null and c.compensating_at is null
    returning c.run_id
  )
  select array_agg(s.run_id) into v_inner from stopped s;
  if v_inner is not null then
    perform stop_runs(v_inner, 'the run around it is being compensated', p_now);
  end if;
  select u.ends, u.deltas into v_more from undo_runs(array[p_run_id], p_now) as u;
  perform advance(v_more.ends, null, v_more.deltas || row(p_run_id, 0, 0, 0, 0, 0, 0, 0, 0)::run_delta, p_now);
end
$$;
comment on function fencepost_private.begin_compensation(bigint, timestamptz) is 'Cancels what still waits in a failed run and starts to undo its completed tasks.';

-- Enqueues, for each of these runs that is compensating, the undoing that is last in the topological order, unless one is
-- queued already, one has failed, somebody holds the run, or a child run has not come to its end.
create function fencepost_private.undo_runs(p_run_ids bigint[], p_now timestamptz, out ends fencepost_private.task_end[], out deltas fencepost_private.run_delta[])
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
begin
  select q.ends, q.deltas into ends, deltas
  from queue_tasks(array(
    select row(u.task_id, u.run_id, u.task_no, 'compensation', r.tenant, d.compensate, coalesce(d.priority, r.priority, 5), null, null,
               jsonb_build_object('task', d.name, 'input', t.input, 'output', t.output, 'run', jsonb_build_object('id', r.run_id, 'input', r.input)),
               false, null, null, null, null, null, null, null, null, null)::due_task
    from unnest(p_run_ids) as i(run_id)
    join run r on r.run_id = i.run_id and r.compensating_at is not null and r.cancelled_at is null and r.paused_at is null and r.undoing > 0 and r.undo_failed = 0
    cross join lateral (
      select c.* from task c where c.run_id = r.run_id and c.kind = 'compensation' and c.status = 'pending' order by c.task_no desc limit 1
    ) as u
    join task t on t.task_id = u.parent_task_id
    join workflow_task d on d.version_id = r.version_id and d.task_no = t.task_no
    where not exists (select from task q where q.run_id = r.run_id and q.kind = 'compensation' and q.status = 'queued')
      and not exists (
        select from run c
        where c.root_run_id = r.root_run_id and c.root_run_id <> c.run_id and c.depth > r.depth and c.finished_at is null and c.run_id = any (run_family(r.run_id)))), p_now) as q;
end
$$;
comment on function fencepost_private.undo_runs(bigint[], timestamptz) is 'Enqueues the next undoing of each of these runs; returns those whose payload is refused, and what changes in the runs'' numbers.';

-- Runs around these child runs, which have ended, that wait for them before they undo what they did.
create function fencepost_private.waiting_to_undo(p_run_ids bigint[])
returns bigint[]
language sql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
  with recursive around as (
    select t.run_id from run c join task t on t.task_id = c.parent_task_id where c.run_id = any (p_run_ids)
    union
    select t.run_id from around a join run c on c.run_id = a.run_id join task t on t.task_id = c.parent_task_id
  )
  select coalesce(array_agg(r.run_id), '{}') from around a join run r on r.run_id = a.run_id where r.compensating_at is not null and r.undoing > 0
$$;
comment on function fencepost_private.waiting_to_undo(bigint[]) is 'Runs around these child runs that are compensating.';
