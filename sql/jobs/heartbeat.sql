-- A sign of life, at least every third of the ttl. It keeps all leases of the worker alive; naming the jobs that run
-- also tells what became of them. Returns only what needs attention:
--   lost     the worker does not hold (job, token) any more: abort its handler
--   cancel   someone asked to cancel it: abort its handler, then fail or complete it
--   timeout  its time is up: abort its handler; the engine is about to take it back
--   drain    (without a job) an operator asks the worker to finish what it has and take nothing new
-- Without worker_id the name means its present incarnation, the latest if several hosts share it.
-- A short transaction of its own. Locks: the worker's row; leases older than a ttl, SKIP LOCKED.
-- Errors: JE003; JE010 when the worker is lost, stopped or unknown.
create function fencepost.heartbeat(worker text, job_ids bigint[] default '{}', tokens int[] default '{}', worker_id int default null)
returns table (job_id bigint, directive text)
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_now timestamptz := fencepost_private.now();
  v_id  int := heartbeat.worker_id;
begin
  perform check_pairs(heartbeat.job_ids, heartbeat.tokens, 'heartbeat');
  if v_id is null then
    select w.worker_id into v_id
    from worker w
    where w.name = heartbeat.worker and w.status in ('active', 'draining')
    order by w.worker_id desc limit 1;
    if not found then
      select max(w.worker_id) into v_id from worker w where w.name = heartbeat.worker;
    end if;
  end if;
  return query
  select d.job_id, d.directive from beat(v_id, heartbeat.worker, heartbeat.job_ids, heartbeat.tokens, v_now) as d;
end
$$;
comment on function fencepost.heartbeat(text, bigint[], int[], int)
  is 'Keeps a worker and its leases alive; returns lost, cancel or timeout for the named jobs that need attention. Raises JE003, JE010.';

-- The heartbeat itself: one row of worker, and seen_at on the named leases that were not stamped for a ttl (so that
-- short jobs pay nothing). A lease that is locked is being ended or cancelled: the heartbeat must not wait for that.
-- Returns directives for the named jobs.
create function fencepost_private.beat(p_worker_id int, p_name text, p_ids bigint[], p_tokens int[], p_now timestamptz)
returns table (job_id bigint, token int, directive text)
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
#variable_conflict use_column
declare
  v_worker record;
begin
  update worker w
  set heartbeat_at = p_now, suspect_at = null, returned_at = case when w.heartbeat_at < p_now - w.ttl then p_now else w.returned_at end
  where w.worker_id = p_worker_id and w.status in ('active', 'draining')
  returning w.ttl, w.status into v_worker;
  if not found then
    perform raise_worker_lost(coalesce(p_name, p_worker_id::text), (select w.status from worker w where w.worker_id = p_worker_id));
  end if;

  update lease l set seen_at = p_now
  where l.id = any (array(
    select h.id
    from unnest(p_ids, p_tokens) as held(id, token)
    join lease h on h.id = held.id and h.token = held.token and h.worker_id = p_worker_id
    where greatest(h.started_at, h.seen_at) < p_now - v_worker.ttl
    for no key update of h skip locked));

  return query
  select held.id, held.token,
         case when l.id is null then 'lost' when l.cancel_requested_at is not null then 'cancel' else 'timeout' end
  from unnest(p_ids, p_tokens) as held(id, token)
  left join lease l on l.id = held.id and l.token = held.token and l.worker_id = p_worker_id
  where l.id is null or l.cancel_requested_at is not null or l.deadline <= p_now;
  if v_worker.status = 'draining' then
    return query select null::bigint, null::int, 'drain'::text;
  end if;
end
$$;
comment on function fencepost_private.beat(int, text, bigint[], int[], timestamptz) is 'Writes a worker''s heartbeat and returns directives for the jobs it named. Raises JE010.';
