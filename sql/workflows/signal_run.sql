-- Sends a signal to a run: the task that waits for it ends with the payload as its output. A signal that nobody waits for
-- yet is kept, and taken when its task begins to wait. Each signal is taken once. One that comes after expires_after is too
-- late for the task that waited, whose wait ends then, also when the housekeeping had not come to it. Returns its id.
-- Locks: the root run. Errors: JE002, JE003 (name), JE006 (payload of more than 1 MiB); JE004 when the run has ended.
create function fencepost.signal_run(run_id bigint, name text, payload jsonb default null)
returns bigint
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := fencepost_private.now();
  v_run record;
  v_id  bigint;
begin
  if signal_run.name is null or length(signal_run.name) not between 1 and 200 then
    perform raise_error('JE003', 'a signal needs a name of 1 to 200 characters', format('received %s', coalesce(left(quote_literal(signal_run.name), 100), 'null')), 'The name that a task of kind signal waits for.');
  end if;
  perform check_size(signal_run.payload, format('the payload of the signal %s', quote_literal(signal_run.name)));
  v_run := lock_run(signal_run.run_id);
  if v_run.status in ('completed', 'cancelled', 'compensated', 'compensating') then
    perform raise_error('JE004', format('run %s is %s and takes no signals', signal_run.run_id, v_run.status), format('received the signal %s', quote_literal(signal_run.name)), 'Signals are for runs that can still move.');
  end if;
  insert into signal (run_id, name, payload, received_at, sent_by)
  values (signal_run.run_id, signal_run.name, signal_run.payload, v_now, actor())
  returning signal_id into v_id;
  insert into event (xid, at, tenant, kind, run_id, actor, data)
  values (xid(), v_now, v_run.tenant, 'signal.received', signal_run.run_id, actor(), jsonb_build_object('signal', signal_run.name, 'signal_id', v_id));
  perform touch_roots(array[signal_run.run_id]);

  if v_run.paused_at is null then
    perform advance(array(
      select row(t.task_id, 'failed', null, 'it was waited for in vain')::task_end
      from task t
      join workflow_task d on d.version_id = v_run.version_id and d.task_no = t.task_no
      where t.run_id = signal_run.run_id and t.kind = 'signal' and t.status = 'waiting' and d.signal = signal_run.name and t.due_at <= v_now), null, null, v_now);
  end if;
  perform advance(array(
    select row(s.task_id, 'completed', s.payload, null)::task_end
    from take_signals(array(
      select t.task_id
      from task t
      join workflow_task d on d.version_id = v_run.version_id and d.task_no = t.task_no
      where t.run_id = signal_run.run_id and t.kind = 'signal' and t.status = 'waiting' and d.signal = signal_run.name
      order by t.task_no limit 1)) as s), null, null, v_now);
  return v_id;
end
$$;
comment on function fencepost.signal_run(bigint, text, jsonb) is 'Sends a signal to a run; it is kept until a task takes it. Returns its id. Raises JE002, JE003, JE004, JE006.';

-- Gives each of these waiting tasks the oldest stored signal of its name, if there is one.
create function fencepost_private.take_signals(p_task_ids bigint[])
returns table (task_id bigint, payload jsonb)
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
  if cardinality(p_task_ids) = 0 then
    return;
  end if;
  return query
  with asking as materialized (
    select t.task_id, t.run_id, d.signal, row_number() over (partition by t.run_id, d.signal order by t.task_no) as place
    from unnest(p_task_ids) as i(task_id)
    cross join lateral (select t.* from task t where t.task_id = i.task_id offset 0) as t
    cross join lateral (select r.version_id from run r where r.run_id = t.run_id offset 0) as r
    cross join lateral (select d.signal from workflow_task d where d.version_id = r.version_id and d.task_no = t.task_no offset 0) as d
  ), stored as materialized (
    select s.signal_id, s.run_id, s.name, s.payload, row_number() over (partition by s.run_id, s.name order by s.signal_id) as place
    from (select distinct a.run_id, a.signal from asking a) as a
    cross join lateral (select s.* from signal s where s.run_id = a.run_id and s.name = a.signal offset 0) as s
    where s.task_id is null
  )
  update signal s set task_id = a.task_id
  from asking a join stored o on o.run_id = a.run_id and o.name = a.signal and o.place = a.place
  where s.signal_id = any (array[o.signal_id])
  returning a.task_id, coalesce(o.payload, 'null');
end
$$;
comment on function fencepost_private.take_signals(bigint[]) is 'Gives waiting tasks the oldest stored signals of their names.';

-- Locks the root of a run and returns the run. Errors: JE002.
create function fencepost_private.lock_run(p_run_id bigint)
returns fencepost_private.run
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
declare
  v_run run;
begin
  perform lock_roots(array[p_run_id]);
  select r.* into v_run from run r where r.run_id = p_run_id;
  if not found then
    perform raise_error('JE002', format('run %s does not exist', coalesce(p_run_id::text, 'null')), format('received run_id = %s', coalesce(p_run_id::text, 'null')), 'See fencepost.runs.');
  end if;
  return v_run;
end
$$;
comment on function fencepost_private.lock_run(bigint) is 'Locks the root of a run and returns the run. Raises JE002.';
