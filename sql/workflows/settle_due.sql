-- Timers that fire, approvals and signals that expire. A step of maintain(); at most p_limit of each. In a paused run
-- nothing fires or expires. Runs that somebody holds are passed over until the next pass.
-- Locks: root runs, SKIP LOCKED.
create function fencepost_private.settle_due_runs(p_limit int default 500, p_now timestamptz default fencepost_private.now())
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set timezone = 'UTC'
as $$
declare
  v_due   bigint[];
  v_roots bigint[];
  v_count bigint := 0;
  v       record;
begin
  v_due := array(
    select t.run_id from task t join run r on r.run_id = t.run_id
    where t.due_at <= p_now and r.paused_at is null order by t.due_at limit p_limit) || array(
    select a.run_id from approval a join run r on r.run_id = a.run_id
    where a.status = 'pending' and a.is_gate and a.expires_at <= p_now and r.paused_at is null order by a.expires_at limit p_limit);
  if cardinality(v_due) = 0 then
    return 0;
  end if;
  v_roots := array(
    select r.run_id from run r
    where r.run_id = any (array(select distinct c.root_run_id from run c where c.run_id = any (v_due)))
    order by r.run_id for no key update skip locked);

  -- under the locks, in new statements
  for v in
    select a.approval_id
    from approval a join run r on r.run_id = a.run_id
    where a.status = 'pending' and a.expires_at <= p_now and a.run_id = any (v_due) and r.root_run_id = any (v_roots) and r.paused_at is null
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
  from task t join run r on r.run_id = t.run_id
  where t.due_at <= p_now and t.status = 'waiting' and t.kind in ('timer', 'signal') and t.run_id = any (v_due) and r.root_run_id = any (v_roots) and r.paused_at is null;
  perform advance(v.ends, null, null, p_now);
  return v_count + v.n;
end
$$;
comment on function fencepost_private.settle_due_runs(int, timestamptz) is 'Fires timers and lets approvals and signals expire, at most p_limit of each. Returns how many.';
