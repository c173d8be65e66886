-- Undoing. Once a failed run of a workflow with on_failure "compensate" has nothing queued, what still waits is cancelled
-- and the completed tasks that name `compensate` are undone one after another, children before parents. Each is a job
-- like any other: retried, dead-lettered when it cannot be done (the run is then failed), and replayed from there.
create function fencepost_private.begin_compensation(p_run_id bigint, p_now timestamptz)
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_live task_end[];
begin
  update run r set compensating_at = p_now, finished_at = null where r.run_id = p_run_id;
  v_live := array(
    select row(t.task_id, 'cancelled', null, 'the run is being compensated')::task_end
    from task t where t.run_id = p_run_id and t.status in ('pending', 'waiting') order by t.task_id);
  perform cancel_children(p_run_id, 'the parent run is being compensated', p_now);

  with undo as (
    insert into task (run_id, task_no, kind, status, parent_task_id, item)
    select t.run_id, t.task_no, 'compensation', 'pending', t.task_id, 0
    from task t
    join run r on r.run_id = t.run_id
    join workflow_task d on d.version_id = r.version_id and d.task_no = t.task_no
    where t.run_id = p_run_id and t.status = 'completed' and t.parent_task_id is null and d.compensate is not null
    returning task_id
  )
  update run r set undoing = (select count(*) from undo) where r.run_id = p_run_id;
  perform advance(v_live, null, undo_runs(array[p_run_id], p_now) || row(p_run_id, 0, 0, 0, 0, 0, 0, 0, 0)::run_delta, p_now);
end
$$;
comment on function fencepost_private.begin_compensation(bigint, timestamptz) is 'Cancels what still waits in a failed run and starts to undo its completed tasks.';

-- The next undoing, in runs where one has just ended well.
create function fencepost_private.undo_next(p_ended fencepost_private.ended_task[], p_now timestamptz)
returns fencepost_private.run_delta[]
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_runs bigint[] := array(select distinct e.run_id from unnest(p_ended) as e where e.kind = 'compensation' and e.status = 'completed');
begin
  return case when cardinality(v_runs) > 0 then undo_runs(v_runs, p_now) else '{}'::run_delta[] end;
end
$$;
comment on function fencepost_private.undo_next(fencepost_private.ended_task[], timestamptz) is 'Enqueues the next compensation of runs in which one has ended well.';

-- Enqueues, for each run, the compensation that is last in the topological order, unless one is queued already.
create function fencepost_private.undo_runs(p_run_ids bigint[], p_now timestamptz)
returns fencepost_private.run_delta[]
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_due    due_task[];
  v_deltas run_delta[];
begin
  v_due := array(
    select row(u.task_id, u.run_id, u.task_no, 'compensation', r.tenant, d.compensate, coalesce(d.priority, r.priority, 5), null, null,
               jsonb_build_object('task', d.name, 'input', b.payload, 'output', t.output, 'run', jsonb_build_object('id', r.run_id, 'input', r.input)),
               null, null, null, null, null, null, null, null, null)::due_task
    from unnest(p_run_ids) as i(run_id)
    join run r on r.run_id = i.run_id and r.compensating_at is not null
    cross join lateral (
      select c.* from task c where c.run_id = r.run_id and c.kind = 'compensation' and c.status = 'pending' order by c.task_no desc limit 1
    ) as u
    join task t on t.task_id = u.parent_task_id
    join workflow_task d on d.version_id = r.version_id and d.task_no = t.task_no
    left join job b on b.id = t.job_id
    where not exists (select from task q where q.run_id = r.run_id and q.kind = 'compensation' and q.status = 'queued'));
  select q.deltas into v_deltas from queue_tasks(v_due, p_now) as q;
  return v_deltas;
end
$$;
comment on function fencepost_private.undo_runs(bigint[], timestamptz) is 'Enqueues the next compensation of each of these runs.';
