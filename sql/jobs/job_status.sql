-- The status of one job, from the place that holds it: the one look-up by id. Null when there is no such job.
create function fencepost_private.job_status(p_job_id bigint)
returns text
language sql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
  select case
    when exists (select from lease l where l.id = p_job_id) then 'running'
    when exists (select from ready r where r.id = p_job_id) then 'pending'
    when exists (select from delayed d where d.id = p_job_id) then 'pending'
    when exists (select from dead_letter z where z.id = p_job_id) then 'dead_letter'
    when exists (select from suspended s where s.id = p_job_id) then 'waiting'
    when exists (select from parked p where p.id = p_job_id) then 'pending'
    else (select case e.kind when 'job.completed' then 'completed' when 'job.cancelled' then 'cancelled' else 'discarded' end
          from event e
          where e.job_id = p_job_id and e.kind in ('job.completed', 'job.cancelled', 'job.discarded')
          order by e.id desc limit 1)
  end
$$;
comment on function fencepost_private.job_status(bigint) is 'Status of a job: pending, running, waiting, dead_letter, completed, cancelled or discarded; null when unknown.';
