-- Lists tasks of a run, parents before children, at most `max` (1 to 1000), from behind the task `after_task` (the id of
-- the last row before). Items of a map, and the compensation of a task, are listed with parent_task_id.
--
-- The filter is a JSON object; each key narrows:
--   status           pending, queued, running, waiting, completed, failed, skipped or cancelled
--   parent_task_id   the map whose items are listed, or the task whose compensation is
--
-- `compensation` is the status of the task that undoes this one; null when there is none.
--
-- With a status it looks at no more than 10,000 tasks. When that was not enough to fill the list, the last row says so:
-- its `cut` is true, its id is how far the look went, everything else in it is null; go on with after_task => that id.
-- Errors: JE002 (the run, or a task that is not of it), JE003.
create function fencepost.list_tasks(run_id bigint, filter jsonb default '{}', after_task bigint default null, max int default 50)
returns table (id bigint, name text, kind text, status text, attempts int, output jsonb, error text, type text, job_id bigint, child_run_id bigint,
               item int, parent_task_id bigint, approval_id bigint, due_at timestamptz, ready_at timestamptz, started_at timestamptz, finished_at timestamptz,
               unmet_parents int, after text[], items int, items_open int, items_failed int, compensation text, cut boolean)
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
set jit = off
as $$
#variable_conflict use_column
declare
  v_budget constant int := 10000;
  v_filter task_filter;
  v_from   int := -1;
  v_ids    bigint[];
  v_end    bigint;
begin
  v_filter := read_filter(v_filter, list_tasks.filter, array['status', 'parent_task_id'], 'parent_task_id is the whole number of a task.');
  perform check_status(v_filter.status, array['pending', 'queued', 'running', 'waiting', 'completed', 'failed', 'skipped', 'cancelled'], 'A task');
  perform check_max(list_tasks.max);
  if not exists (select from run r where r.run_id = list_tasks.run_id) then
    perform raise_error('JE002', format('run %s does not exist', coalesce(list_tasks.run_id::text, 'null')), format('received run_id = %s', coalesce(list_tasks.run_id::text, 'null')), 'See fencepost.runs.');
  end if;
  if v_filter.parent_task_id is not null then
    perform task_of_run(v_filter.parent_task_id, list_tasks.run_id);
  end if;
  if list_tasks.after_task is not null then
    v_from := (select coalesce(t.item, t.task_no) from task_of_run(list_tasks.after_task, list_tasks.run_id) as t);
  end if;

  with looked as materialized (
    (select t.task_id, t.task_no as place, t.status, t.job_id from task t
     where v_filter.parent_task_id is null and t.run_id = list_tasks.run_id and t.item is null and t.task_no > v_from
     order by t.task_no limit case when v_filter.status is null then list_tasks.max else v_budget end)
    union all
    (select t.task_id, t.item, t.status, t.job_id from task t
     where t.parent_task_id = v_filter.parent_task_id and t.item > v_from
     order by t.item limit case when v_filter.status is null then list_tasks.max else v_budget end)
  )
  select array(select l.task_id from looked l
               where v_filter.status is null
                  or v_filter.status = case when l.status = 'queued' and exists (select from lease h where h.id = l.job_id) then 'running' else l.status::text end
               order by l.place limit list_tasks.max),
         (select l.task_id from looked l where (select count(*) from looked) = v_budget order by l.place desc limit 1)
    into v_ids, v_end;

  return query
  select t.id, t.name, t.kind, t.status, t.attempts, t.output, t.error, t.type, t.job_id, t.child_run_id,
         t.item, t.parent_task_id, t.approval_id, t.due_at, t.ready_at, t.started_at, t.finished_at,
         t.unmet_parents, t.after, t.items, t.items_open, t.items_failed,
         (select u.status::text from task u where u.parent_task_id = t.id and u.item = 0 and u.kind = 'compensation'), false
  from unnest(v_ids) with ordinality as i(id, place)
  join fencepost.tasks t on t.id = i.id
  order by i.place;

  if cardinality(v_ids) < list_tasks.max and v_end is not null then
    id := v_end;
    cut := true;
    return next;
  end if;
end
$$;
comment on function fencepost.list_tasks(bigint, jsonb, bigint, int)
  is 'Lists tasks of a run, parents before children, from behind the task `after_task`; with parent_task_id the items of a map. Raises JE002, JE003.';

create function fencepost_private.task_of_run(p_task_id bigint, p_run_id bigint)
returns fencepost_private.task
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
declare
  v_task task;
begin
  select t.* into v_task from task t where t.task_id = p_task_id and t.run_id = p_run_id;
  if not found then
    perform raise_error('JE002', format('run %s has no task %s', p_run_id, p_task_id), format('received task %s', p_task_id), 'See fencepost.list_tasks().');
  end if;
  return v_task;
end
$$;
comment on function fencepost_private.task_of_run(bigint, bigint) is 'A task of a run. Raises JE002.';
