-- Where workflows, batches and slots will join the engine. Each is called set-wise, once a statement, in the
-- transaction of the transition; today they have nothing to do.

create function fencepost_private.lock_runs_of(p_job_ids bigint[]) returns void
language sql volatile
return null;
comment on function fencepost_private.lock_runs_of(bigint[]) is 'Locks the workflow runs of these jobs in id order, before any of the jobs is locked. No job has a run yet.';

create function fencepost_private.jobs_ended(p_job_ids bigint[]) returns void
language sql volatile
return null;
comment on function fencepost_private.jobs_ended(bigint[]) is 'Called by every ending (completed, dead-lettered, cancelled, discarded) with the jobs that ended.';

create function fencepost_private.jobs_revived(p_job_ids bigint[]) returns void
language sql volatile
return null;
comment on function fencepost_private.jobs_revived(bigint[]) is 'Called by replay and resume with the jobs that live again.';
