-- Timers that fire, approvals and signals that expire. A step of maintain(); at most p_limit of each. In a paused run
-- nothing fires or expires. Runs that somebody holds are passed over until the next pass.
-- With p_window only what fell due within it: maintain() passes five minutes each second, so that under a held snapshot it
-- never walks the dead head of the indexes, and null once a minute, for what was held or committed late.
-- Locks: root runs, SKIP LOCKED.
create function fencepost_private.settle_due_runs(p_limit int default 500, p_window interval default null, p_now timestamptz default fencepost_private.now())
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set timezone = 'UTC'
set jit = off
as $$
declare
  v_from  timestamptz := coalesce(p_now - p_window, '-infinity');
  v_tasks bigint[];
  v_gates bigint[];
  v_due   bigint[];
  v_roots bigint[];
  v_held  bigint[] := left_alone('settle_due_runs', p_now);
begin
  for v_try in 1..5 loop
    v_tasks := array(
      select t.task_id
      from task t cross join lateral (select r.paused_at, r.root_run_id from run r where r.run_id = t.run_id offset 0) as r
      where t.due_at >= v_from and t.due_at <= p_now and r.paused_at is null and not r.root_run_id = any (v_held) order by t.due_at limit p_limit);
    v_gates := array(
      select a.approval_id
      from approval a cross join lateral (select r.paused_at, r.root_run_id from run r where r.run_id = a.run_id offset 0) as r
      where a.status = 'pending' and a.is_gate and a.expires_at >= v_from and a.expires_at <= p_now and r.paused_at is null and not r.root_run_id = any (v_held)
      order by a.expires_at limit p_limit);
    if cardinality(v_tasks) + cardinality(v_gates) = 0 then
      return 0;
    end if;
    v_due := array(
      select distinct r.root_run_id
      from (
        select t.run_id from unnest(v_tasks) as i(task_id) cross join lateral (select t.run_id from task t where t.task_id = i.task_id offset 0) as t
        union all
        select a.run_id from unnest(v_gates) as i(approval_id) cross join lateral (select a.run_id from approval a where a.approval_id = i.approval_id offset 0) as a
      ) as due
      cross join lateral (select r.root_run_id from run r where r.run_id = due.run_id offset 0) as r);
    v_roots := array(select r.run_id from run r where r.run_id = any (v_due) order by r.run_id for no key update skip locked);
    -- a run that is held does not keep others waiting behind all that is due in it
    exit when cardinality(v_roots) = cardinality(v_due) or cardinality(v_tasks) < p_limit and cardinality(v_gates) < p_limit;
    v_held := v_held || array(select i from unnest(v_due) as i where not i = any (v_roots));
  end loop;

  return isolated('settle_due_runs', 'settle_due_of($1, $2, $3, $4)', v_roots, p_now, v_tasks, v_gates);
end
$$;
comment on function fencepost_private.settle_due_runs(int, interval, timestamptz)
  is 'Fires timers and lets approvals and signals expire, at most p_limit of each; with p_window only what fell due within it. Returns how many.';

-- The same for these families, which are locked: of these tasks and gates those that are theirs, and still due.
create function fencepost_private.settle_due_of(p_roots bigint[], p_now timestamptz, p_tasks bigint[], p_gates bigint[])
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set timezone = 'UTC'
set jit = off
as $$
declare
  v_count bigint := 0;
  v       record;
begin
  for v in
    select a.approval_id
    from (
      select g.approval_id from unnest(p_gates) as g(approval_id)
      union all
      select a.approval_id
      from unnest(p_tasks) as i(task_id) cross join lateral (select a.* from approval a where a.task_id = i.task_id offset 0) as a where not a.is_gate
    ) as c
    cross join lateral (select a.* from approval a where a.approval_id = c.approval_id offset 0) as a
    cross join lateral (select r.root_run_id, r.paused_at from run r where r.run_id = a.run_id offset 0) as r
    where a.status = 'pending' and a.expires_at <= p_now and r.root_run_id = any (p_roots) and r.paused_at is null
    order by a.approval_id
  loop
    -- one that expired may have ended the task of the next
    continue when not exists (select from approval a where a.approval_id = v.approval_id and a.status = 'pending');
    perform decide(v.approval_id, 'expired', 'the clock', null, null, p_now);
    v_count := v_count + 1;
  end loop;
  select array_agg(row(t.task_id, case when t.kind = 'timer' then 'completed' else 'failed' end,
                       case when t.kind = 'timer' then to_jsonb(t.due_at) end,
                       case when t.kind <> 'timer' then 'it was waited for in vain' end)::task_end order by t.task_id) as ends, count(*) as n
    into v
  from unnest(p_tasks) as i(task_id)
  cross join lateral (select t.* from task t where t.task_id = i.task_id offset 0) as t
  cross join lateral (select r.root_run_id, r.paused_at from run r where r.run_id = t.run_id offset 0) as r
  where t.due_at <= p_now and t.status = 'waiting' and t.kind in ('timer', 'signal') and r.root_run_id = any (p_roots) and r.paused_at is null;
  perform advance(v.ends, null, null, p_now);
  return v_count + v.n;
end
$$;
comment on function fencepost_private.settle_due_of(bigint[], timestamptz, bigint[], bigint[]) is 'Fires and expires those of these tasks and gates that are due and of these families. Returns how many.';
