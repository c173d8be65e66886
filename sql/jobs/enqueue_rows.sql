-- The one way into the engine: every public enqueue, and later runs, schedules and batches, end here.
--
-- Stores these jobs, in order, and wakes who sleeps for them; all or nothing.
-- A job whose idempotency key is taken is not stored: its row says which job has the key, and created = false. That
-- holds also while the type is closed or full: sending a job again is no new job.
-- With p_trusted the types' refusals were looked at before: runs go on also while a type is closed or full.
-- Locks: rows of idempotency_key that it inserts, in key order; waits for a concurrent enqueue of the same key.
-- Errors: JE005 (key taken by another payload), JE006 (payload), JE007 (type closed or full).
create function fencepost_private.enqueue_rows(p_jobs fencepost_private.new_job[], p_now timestamptz, p_trusted boolean default false)
returns table (ordinal int, job_id bigint, created boolean)
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
#variable_conflict use_column
declare
  v_jobs     new_job[] := p_jobs;
  v_xid      bigint;
  v_suspect  boolean;
  v_publish  boolean;
  v_keyed    boolean;
  v_known    jsonb := '{}'::jsonb;
  v_types    int[];
  v_last     bigint;
begin
  -- one look over all of them: is there anything to check closely?
  select bool_or(not p_trusted and (not t.accept or t.max_pending is not null
              or octet_length(j.payload::text) > t.max_payload_bytes
              or t.payload_check is not null and jsonb_path_match(j.payload, t.payload_check, silent => true) is not true)),
         bool_or(t.publish_enqueued), bool_or(j.idempotency_key is not null), max(j.id)
    into v_suspect, v_publish, v_keyed, v_last
  from unnest(p_jobs) as j join job_type t on t.type_id = j.type_id;
  if v_keyed then
    v_known := claim_keys(p_jobs);
    if v_known <> '{}' then
      v_jobs := array(select j from unnest(p_jobs) as j where not v_known ? j.ordinal::text order by j.ordinal);
    end if;
  end if;
  if v_suspect then
    perform check_new_jobs(v_jobs, cardinality(p_jobs) > 1);
  end if;

  if cardinality(v_jobs) > 0 then
    if v_last / 10000 <> (v_last - cardinality(v_jobs)) / 10000 then
      perform ensure_partitions();
    end if;
    v_xid := xid();
    with given as materialized (
      select j.*, j.available_at > p_now as is_later from unnest(v_jobs) as j
    ), body as (
      insert into job (id, lane_id, tenant, payload, headers, idempotency_key, max_attempts, timeout, created_at, run_at, run_id, task_id, batch_id)
      select g.id, g.lane_id, g.tenant, g.payload, g.headers, g.idempotency_key, g.max_attempts, g.timeout, p_now, g.available_at, g.run_id, g.task_id, g.batch_id
      from given g
    ), made_ready as (
      insert into ready (id, xid, lane_id, attempts, token, ready_at)
      select g.id, v_xid, g.lane_id, 0, 0, p_now from given g where g.is_later is not true
    ), made_delayed as (
      insert into delayed (id, available_at, lane_id, attempts, token)
      select g.id, g.available_at, g.lane_id, 0, 0 from given g where g.is_later
    ), counted as (
      insert into depth_delta (type_id, xid, ready, delayed, enqueued)
      select g.type_id, v_xid, count(*) filter (where g.is_later is not true), count(*) filter (where g.is_later), count(*)
      from given g group by g.type_id
      returning type_id
    )
    select array_agg(c.type_id) into v_types from counted c;
    if v_publish then
      insert into event (xid, at, tenant, kind, lane_id, job_id, run_id, task_id, data)
      select v_xid, p_now, j.tenant, 'job.enqueued', j.lane_id, j.id, j.run_id, j.task_id, null
      from unnest(v_jobs) as j join job_type t on t.type_id = j.type_id
      where t.publish_enqueued;
    end if;
    perform wake(v_types);
  end if;

  if v_known = '{}' then
    return query select j.ordinal, j.id, true from unnest(v_jobs) as j;
  else
    return query
    select j.ordinal, coalesce((v_known ->> j.ordinal::text)::bigint, j.id), not v_known ? j.ordinal::text
    from unnest(p_jobs) as j order by j.ordinal;
  end if;
end
$$;
comment on function fencepost_private.enqueue_rows(fencepost_private.new_job[], timestamptz, boolean)
  is 'Stores jobs set-wise: checks, idempotency keys, bodies, places, depth, events, wake-up. Raises JE005, JE006, JE007.';

-- Names the first job that its type refuses, and why; of several (p_listed) also its place. Called only when one may be
-- refused.
-- Errors: JE006, JE007.
create function fencepost_private.check_new_jobs(p_jobs fencepost_private.new_job[], p_listed boolean)
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v       record;
  v_where text;
begin
  select j.ordinal, t.type, t.accept, t.max_pending, t.max_payload_bytes, t.payload_check, j.payload, octet_length(j.payload::text) as bytes,
         case
           when not t.accept then 'closed'
           when octet_length(j.payload::text) > t.max_payload_bytes then 'large'
           when t.payload_check is not null and jsonb_path_match(j.payload, t.payload_check, silent => true) is not true then 'check'
           when t.max_pending < n.waiting + count(*) over (partition by j.type_id order by j.ordinal) then 'full'
         end as problem
    into v
  from unnest(p_jobs) as j
  join job_type t on t.type_id = j.type_id
  left join lateral (select pending(t.type_id) as waiting where t.max_pending is not null) as n on true
  where not t.accept
     or octet_length(j.payload::text) > t.max_payload_bytes
     or t.payload_check is not null and jsonb_path_match(j.payload, t.payload_check, silent => true) is not true
     or t.max_pending < n.waiting + (select count(*) from unnest(p_jobs) as o where o.type_id = j.type_id and o.ordinal <= j.ordinal)
  order by j.ordinal
  limit 1;
  if not found then
    return;
  end if;
  v_where := case when p_listed then format('job %s of the list: ', v.ordinal) else '' end;

  if v.problem = 'closed' then
    perform raise_error('JE007', format('type %s does not accept jobs now', v.type), v_where || format('received a job of type %s', v.type),
      format('An operator opens it again with fencepost.configure_type(%L, accept => true).', v.type));
  elsif v.problem = 'large' then
    perform raise_error('JE006', format('the payload for %s is too large', v.type),
      v_where || format('received %s bytes; the limit is %s', v.bytes, v.max_payload_bytes),
      'Store large data elsewhere and enqueue a reference to it, or raise max_payload_bytes of the type.');
  elsif v.problem = 'check' then
    perform raise_error('JE006', format('the payload for %s fails the check of its type', v.type),
      v_where || format('received %s', clipped(shown(v.payload)::text, 400)),
      format('It must satisfy the SQL/JSON path predicate %s', v.payload_check));
  else
    perform raise_error('JE007', format('the queue of %s is full', v.type), v_where || format('it would exceed max_pending = %s', v.max_pending),
      'Try again later, add workers, or raise max_pending of the type.');
  end if;
end
$$;
comment on function fencepost_private.check_new_jobs(fencepost_private.new_job[], boolean) is 'Raises JE006 or JE007 for the first of these jobs that its type refuses.';

-- Takes the idempotency keys of these jobs. Returns {ordinal: job id} for those whose key was already taken.
-- Errors: JE005 when a taken key stands for another payload.
create function fencepost_private.claim_keys(p_jobs fencepost_private.new_job[])
returns jsonb
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_known   jsonb;
  v_missing boolean;
  v_clash   record;
begin
  for v_try in 1..5 loop
    insert into idempotency_key (tenant, type_id, key, job_id)
    select j.tenant, j.type_id, j.idempotency_key, j.id
    from unnest(p_jobs) as j
    where j.idempotency_key is not null
    order by j.tenant, j.type_id, j.idempotency_key, j.ordinal
    on conflict on constraint idempotency_key_pkey do nothing;

    -- a new statement sees what others committed while we waited for them
    select coalesce(jsonb_object_agg(j.ordinal, k.job_id) filter (where k.job_id <> j.id), '{}'), coalesce(bool_or(k.job_id is null), false)
      into v_known, v_missing
    from unnest(p_jobs) as j
    left join idempotency_key k on k.tenant = j.tenant and k.type_id = j.type_id and k.key = j.idempotency_key
    where j.idempotency_key is not null;
    exit when not v_missing;   -- else a key was retired between the two statements: take it now
  end loop;

  if v_known = '{}' then
    return v_known;
  end if;
  -- the job that has the key is stored already, or is the first of this list that named it
  select s.ordinal, s.key, s.job_id into v_clash
  from (
    select j.ordinal, j.id, j.payload, k.key, k.job_id,
           first_value(j.payload) over (partition by k.tenant, k.type_id, k.key order by j.ordinal) as first_payload
    from unnest(p_jobs) as j
    join idempotency_key k on k.tenant = j.tenant and k.type_id = j.type_id and k.key = j.idempotency_key
  ) as s
  left join job b on b.id = s.job_id
  where s.job_id <> s.id and coalesce(b.payload, s.first_payload) is distinct from s.payload
  order by s.ordinal
  limit 1;
  if found then
    perform raise_error('JE005', format('idempotency key %s was already used with another payload', quote_literal(v_clash.key)),
      case when cardinality(p_jobs) > 1 then format('job %s of the list: ', v_clash.ordinal) else '' end || format('the key belongs to job %s', v_clash.job_id),
      'Send the same payload to get the same job, or use another key.');
  end if;
  return v_known;
end
$$;
comment on function fencepost_private.claim_keys(fencepost_private.new_job[]) is 'Takes idempotency keys; returns {ordinal: job id} for those already taken. Raises JE005.';
