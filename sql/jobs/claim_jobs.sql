-- The claim itself, for a worker that is known to be present (claim and exchange call it).
--
-- Takes up to p_max jobs of these types: highest priority first, then in order of enqueue within a type. Each is
-- leased under a new token and its attempt counts from now on.
-- Locks: the claimed rows, SKIP LOCKED; a try-lock for each type with max_running, to commit. Never waits.
-- Commits synchronously even where synchronous_commit is off.
create function fencepost_private.claim_jobs(p_worker_id int, p_types text[], p_max int, p_now timestamptz)
returns table (job_id bigint, token int, type text, attempt int, max_attempts int, payload jsonb, headers jsonb, priority int,
               tenant text, idempotency_key text, created_at timestamptz, deadline timestamptz, run_id bigint, task_id bigint)
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
  v_lane  record;
  v_hint  lane_hint;
  v_limit int;
  v_left  int := p_max;
  v_got   int;
  v_found tid[];
  v_xid   bigint;
  v_told  bigint[];
begin
  -- a claim that a crash forgets would hand its token out again
  if current_setting('synchronous_commit') = 'off' then
    perform set_config('synchronous_commit', 'on', true);
  end if;

  -- what became due in the last two seconds; maintain() takes the rest
  perform promote(1000, interval '2 seconds', p_now);

  for v_lane in select * from pick_lanes(p_types, 32) loop
    v_hint := coalesce(v_lane.hint, no_hint(v_lane.lane_id));
    v_limit := v_left;
    if v_lane.max_running is not null then
      continue when not pg_try_advisory_xact_lock(lock_type(), v_lane.type_id);   -- somebody else claims this type: skip it
      v_limit := least(v_limit, v_lane.max_running - running(v_lane.type_id));     -- a new statement, after the lock
      continue when v_limit <= 0;
    end if;

    v_found := pick_jobs(v_lane.lane_id, v_hint, v_limit);
    if cardinality(v_found) > 0 then
      v_xid := xid();
      if v_lane.publish_started then
        v_told := array(select r.id from ready r where r.ctid = any (v_found) order by r.xid, r.id);
      end if;
      return query
      with taken as (
        delete from ready r where r.ctid = any (v_found) returning r.*
      ), bodies as materialized (
        select t.id, t.xid, t.attempts + 1 as attempts, t.token + 1 as token, t.ready_at,
               coalesce(b.max_attempts, v_lane.max_attempts) as max_attempts, p_now + coalesce(b.timeout, v_lane.timeout) as deadline,
               b.payload, b.headers, b.tenant, b.idempotency_key, b.created_at, b.run_id, b.task_id
        from taken t join job b on b.id = t.id
      ), leased as (
        insert into lease (id, token, worker_id, lane_id, tenant, run_id, task_id, attempts, ready_at, started_at, deadline)
        select b.id, b.token, p_worker_id, v_lane.lane_id, b.tenant, b.run_id, b.task_id, b.attempts, b.ready_at, p_now, b.deadline
        from bodies b
      )
      select b.id, b.token, v_lane.type, b.attempts, b.max_attempts, b.payload, b.headers, v_lane.priority::int,
             b.tenant, b.idempotency_key, b.created_at, b.deadline, b.run_id, b.task_id
      from bodies b
      order by b.xid, b.id;
      get diagnostics v_got = row_count;
      v_left := v_left - v_got;
      insert into depth_delta (type_id, xid, ready, running) values (v_lane.type_id, v_xid, -v_got, v_got);
      if v_lane.publish_started then
        perform tell_started(v_told, p_now);
      end if;
    end if;

    if v_hint.at < p_now - interval '200 milliseconds' then
      perform refresh_hint(v_lane.lane_id, v_hint, p_now);
      -- attempts use up ids of events also where nothing is enqueued: look now and then that there is room for them
      if v_hint.seq % 16 = 15 then
        perform ensure_partitions();
      end if;
    end if;
    exit when v_left <= 0;
  end loop;
end
$$;
comment on function fencepost_private.claim_jobs(int, text[], int, timestamptz)
  is 'Leases up to p_max jobs of these types to a worker, each under a new token. Never waits.';

-- For types that publish job.started: an event for each of these leases, in order.
create function fencepost_private.tell_started(p_ids bigint[], p_now timestamptz)
returns void
language sql
volatile
set search_path = fencepost_private, pg_temp
as $$
  insert into event (xid, at, tenant, kind, lane_id, job_id, run_id, task_id, attempt, token, worker_id, ready_at, started_at)
  select xid(), p_now, l.tenant, 'job.started', l.lane_id, l.id, l.run_id, l.task_id, l.attempts, l.token, l.worker_id, l.ready_at, l.started_at
  from unnest(p_ids) with ordinality as u(id, ordinal)
  join lease l on l.id = u.id
  order by u.ordinal
$$;
comment on function fencepost_private.tell_started(bigint[], timestamptz) is 'Writes job.started for these leases.';
