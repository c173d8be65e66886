-- Lists jobs, newest first, at most `max` (1 to 1000), with ids below `after` (the id of the last row before).
--
-- The filter is a JSON object; each key narrows:
--   type, status, tenant, priority, created_after, created_before
--   error            text that the final error contains, in any case; dead letters only
--   worker           name of the worker that runs them
--   idempotency_key  of the given tenant, else the session's
--
-- It never looks at more than 10,000 jobs. When that was not enough to fill the list, the last row says so: its `cut`
-- is true, its id is how far the look went, everything else in it is null; go on with after => that id.
-- Errors: JE003.
create function fencepost.list_jobs(filter jsonb default '{}', after bigint default null, max int default 50)
returns table (id bigint, type text, status text, attempts int, max_attempts int, priority int, payload jsonb, result jsonb, last_error text,
               available_at timestamptz, leased_until timestamptz, worker text, idempotency_key text, tenant text,
               created_at timestamptz, updated_at timestamptz, started_at timestamptz, finished_at timestamptz, progress jsonb, cut boolean)
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
set jit = off
as $$
#variable_conflict use_column
declare
  v_filter job_filter;
  v_look   record;
begin
  v_filter := parsed_filter(list_jobs.filter, array['type', 'status', 'tenant', 'priority', 'created_after', 'created_before', 'error', 'worker', 'idempotency_key']);
  perform check_max(list_jobs.max);
  v_filter.status := coalesce(v_filter.status, case when v_filter.error is not null then 'dead_letter' when v_filter.worker is not null then 'running' end);
  if v_filter.error is not null and v_filter.status <> 'dead_letter' or v_filter.worker is not null and v_filter.status <> 'running' then
    perform raise_error('JE003', 'that filter does not go with this status', format('received %s', list_jobs.filter),
      'error finds dead letters, worker finds running jobs.');
  end if;

  v_look := bounded_look(job_source(v_filter), format($query$
      cross join lateral (%s) as p
      join lane n on n.lane_id = p.lane_id
      join job_type t on t.type_id = n.type_id
      join job b on b.id = c.id
      where ($3.type is null or t.type = $3.type)
        and ($3.priority is null or n.priority = $3.priority)
        and ($3.tenant is null or b.tenant = $3.tenant)
        and ($3.created_after is null or b.created_at >= $3.created_after)
        and ($3.created_before is null or b.created_at < $3.created_before)
        and ($3.error is null or exists (
              select from dead_letter z where z.id = c.id and position(lower($3.error) in lower(shown(to_jsonb(z.final_error)) #>> '{}')) > 0))
        and ($3.worker is null or exists (
              select from lease l join worker w on w.worker_id = l.worker_id where l.id = c.id and w.name = $3.worker))
    $query$,
    case when v_filter.idempotency_key is null and v_filter.status in ('pending', 'running', 'waiting', 'dead_letter') then 'select c.lane_id'
         when v_filter.status is null then 'select i.lane_id from job_place i where i.id = c.id limit 1'
         else format('select i.lane_id from job_place i where i.id = c.id and i.status = %L limit 1', v_filter.status) end),
    v_filter, list_jobs.after, list_jobs.max);

  return query
  select j.id, j.type, j.status, j.attempts, j.max_attempts, j.priority, j.payload, j.result, j.last_error, j.available_at, j.leased_until,
         j.worker, j.idempotency_key, j.tenant, j.created_at, j.updated_at, j.started_at, j.finished_at, j.progress, false
  from fencepost.jobs j
  where j.id = any (v_look.ids)
  order by j.id desc;

  if v_look.cut_at is not null then
    id := v_look.cut_at;
    cut := true;
    return next;
  end if;
end
$$;
comment on function fencepost.list_jobs(jsonb, bigint, int)
  is 'Lists jobs that match a filter, newest first, from below the id `after`; looks at no more than 10,000 and says with a last row when that cut it short. Raises JE003.';

-- The smallest place that holds all jobs a filter can find, as a query of (id, lane_id).
create function fencepost_private.job_source(p_filter fencepost_private.job_filter)
returns text
language sql
immutable
set search_path = fencepost_private, pg_temp
as $$
  select case
    when p_filter.idempotency_key is not null then
      'select k.job_id as id, null::int as lane_id from job_type t join idempotency_key k on k.type_id = t.type_id'
      ' and k.tenant = coalesce($3.tenant, current_tenant()) and k.key = $3.idempotency_key'
    when p_filter.status = 'pending' then
      'select r.id, r.lane_id from ready r union all select d.id, d.lane_id from delayed d union all select p.id, p.lane_id from parked p'
    when p_filter.status = 'running' then 'select l.id, l.lane_id from lease l'
    when p_filter.status = 'waiting' then 'select s.id, s.lane_id from suspended s'
    when p_filter.status = 'dead_letter' then 'select z.id, z.lane_id from dead_letter z'
    else 'select b.id, b.lane_id from job b'
  end
$$;
comment on function fencepost_private.job_source(fencepost_private.job_filter) is 'SQL of the smallest place that holds all jobs a filter can find.';
