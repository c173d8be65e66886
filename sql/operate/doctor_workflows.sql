-- doctor, of runs: what has failed or stands still, and is told nowhere else. Jobs of tasks are jobs like any other, and
-- told with them; what must hold is looked at by check_invariants().
create function fencepost_private.doctor_workflows(p_now timestamptz)
returns table (severity text, finding text, why text, remedy text, topic text)
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
begin
  return query
  select 'warning', format('workflow %s has %s failed runs%s, the newest is run %s', w.name, f.n, f.undone, f.newest),
         'Each is kept until somebody decides, and what comes after the failed task is not done.',
         format('select id, failed_tasks from fencepost.runs where workflow = %L and status = ''failed''; then fencepost.explain_task(), and fencepost.retry_run(), restart_run() or cancel_run().', w.name), 'failed_runs'
  from (
    select r.workflow_id, count(*) as n, max(r.run_id) as newest, ' (' || nullif(count(*) filter (where r.undo_failed > 0), 0) || ' could not undo what they had done)' as undone
    from run r where r.status = 'failed' and r.root_run_id = r.run_id group by r.workflow_id
  ) as f join workflow w on w.workflow_id = f.workflow_id
  union all
  select 'warning', format('workflow %s has %s runs that have been undoing since %s or longer, and no undoing is queued', w.name, c.n, c.newest_at),
         'What they had done stays done.', format('select id from fencepost.runs where workflow = %L and status = ''compensating''; then look at their child runs, and select * from fencepost.check_invariants();', w.name), 'undoing_stuck'
  from (
    select r.workflow_id, count(*) as n, max(r.compensating_at) as newest_at
    from run r where r.status = 'compensating' and r.queued = 0 and r.compensating_at < p_now - interval '1 hour' group by r.workflow_id
  ) as c join workflow w on w.workflow_id = c.workflow_id
  union all
  select 'warning', format('%s approvals of workflow %s have waited for a decision for more than a day, the oldest (%s) since %s', a.n, w.name, a.oldest, a.since),
         'Their runs wait with them.', format('select id, task, reason, expires_at from fencepost.approvals where status = ''pending'' and id >= %s; then fencepost.approve() or reject().', a.oldest), 'approvals_wait'
  from (
    select r.workflow_id, count(*) as n, min(p.approval_id) as oldest, min(p.requested_at) as since
    from approval p join run r on r.run_id = p.run_id
    where p.status = 'pending' and p.requested_at < p_now - interval '1 day' group by r.workflow_id
  ) as a join workflow w on w.workflow_id = a.workflow_id
  union all
  select 'warning', format('%s approvals have expired and nothing has come of it, the oldest at %s', count(*), min(p.expires_at)),
         'on_expiry of their tasks is not done.', 'Let maintain() run each second; select * from fencepost.housekeeping_errors, if it does.', 'approvals_overdue'
  from approval p join run r on r.run_id = p.run_id
  where p.status = 'pending' and p.expires_at < p_now - interval '10 minutes' and r.paused_at is null
  having count(*) > 0
  union all
  -- a task that is queued is told as a job that waits
  select 'info', format('runs of workflow %s will need type %s, which no live worker claims', w.name, d.type),
         'They will wait there.', format('Start a worker for %s before they come to it.', d.type), 'no_worker_yet'
  from (select distinct r.workflow_id, r.version_id from run r where r.status in ('running', 'waiting') and r.pending > 0) as l
  join workflow w on w.workflow_id = l.workflow_id
  join workflow_task d on d.version_id = l.version_id and d.type is not null
  where not exists (select from worker k where k.status in ('active', 'draining') and d.type = any (k.types))
    and not exists (select from job_type t where t.type = d.type and pending(t.type_id) > 0)
  group by w.name, d.type;
end
$$;
comment on function fencepost_private.doctor_workflows(timestamptz) is 'doctor, of runs.';
