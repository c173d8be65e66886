-- Enqueues a list of jobs of any types, each with its own options: an array of objects with the parameters of
-- fencepost.enqueue as keys. All or nothing. Returns a row for each, in input order: its id, and whether it is new.
-- Errors: JE003 (also for unknown keys), JE005, JE006, JE007, as enqueue; message or detail names the place in the list,
-- counted from 1.
create function fencepost.enqueue_many(jobs jsonb)
returns table (job_id bigint, created boolean)
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
#variable_conflict use_column
declare
  v_now  timestamptz := fencepost_private.now();
  v_keys constant text[] := array['type', 'payload', 'priority', 'run_at', 'delay', 'idempotency_key', 'max_attempts', 'timeout', 'headers', 'tenant'];
  v_bad  record;
  v_rows new_job[];
begin
  if enqueue_many.jobs is null or jsonb_typeof(enqueue_many.jobs) <> 'array' then
    perform raise_error('JE003', 'jobs must be a JSON array of objects', format('received %s', coalesce(jsonb_typeof(enqueue_many.jobs), 'null')),
      'For example [{"type": "email.send", "payload": {"to": "a@b.c"}}].');
  end if;
  select e.ordinal, jsonb_typeof(e.item) as kind, k.key into v_bad
  from jsonb_array_elements(enqueue_many.jobs) with ordinality as e(item, ordinal)
  left join lateral (select o.key from jsonb_object_keys(case jsonb_typeof(e.item) when 'object' then e.item else '{}' end) as o(key)
                     where not o.key = any (v_keys) limit 1) as k on true
  where jsonb_typeof(e.item) <> 'object' or k.key is not null
  order by e.ordinal limit 1;
  if found then
    perform raise_error('JE003',
      case when v_bad.key is null then format('job %s of the list is not an object', v_bad.ordinal) else format('job %s of the list has the unknown key %s', v_bad.ordinal, quote_literal(v_bad.key)) end,
      format('received %s', coalesce(quote_literal(v_bad.key), v_bad.kind)),
      coalesce(did_you_mean(v_bad.key, v_keys), '') || 'Known keys: ' || array_to_string(v_keys, ', ') || '.');
  end if;

  begin
    v_rows := array(
      select row(null, e.ordinal, null, r.priority, coalesce(r.tenant, current_tenant()), coalesce(r.payload, '{}'), r.headers,
                 r.idempotency_key, r.max_attempts, r.timeout, coalesce(r.run_at, v_now + r.delay), null, null, null)::new_job
      from jsonb_array_elements(enqueue_many.jobs) with ordinality as e(item, ordinal)
      cross join lateral jsonb_to_record(e.item) as r(type text, payload jsonb, priority int, run_at timestamptz, delay interval, idempotency_key text, max_attempts int, timeout interval, headers jsonb, tenant text)
      order by e.ordinal);
  exception when data_exception or datetime_field_overflow or invalid_text_representation or invalid_datetime_format or numeric_value_out_of_range then
    perform raise_error('JE003', 'a job of the list has a value of the wrong kind', sqlerrm, 'priority and max_attempts are whole numbers, run_at is a time, delay and timeout are intervals such as "10 minutes".');
  end;

  perform check_lane(r.type, coalesce(r.priority, 5), format('job %s of the list: ', e.ordinal)),
          check_job_options(r.run_at, r.delay, r.idempotency_key, r.max_attempts, r.timeout, r.headers, r.tenant, format('job %s of the list: ', e.ordinal))
  from jsonb_array_elements(enqueue_many.jobs) with ordinality as e(item, ordinal)
  cross join lateral jsonb_to_record(e.item) as r(type text, priority int, run_at timestamptz, delay interval, idempotency_key text, max_attempts int, timeout interval, headers jsonb, tenant text);

  -- each lane once, in name order, so that two lists that make the same new types do not deadlock
  v_rows := array(
    with listed as (
      select e.ordinal, e.item ->> 'type' as type, coalesce((e.item ->> 'priority')::int, 5) as priority
      from jsonb_array_elements(enqueue_many.jobs) with ordinality as e(item, ordinal)
    ), needed as materialized (
      select n.type, n.priority, l.lane_id, l.type_id
      from (select distinct i.type, i.priority from listed i order by i.type, i.priority) as n
      cross join lateral ensure_lane(n.type, n.priority) as l
    )
    select row(nextval('job_id_seq'), v.ordinal, n.type_id, n.lane_id, v.tenant, v.payload, v.headers,
               v.idempotency_key, v.max_attempts, v.timeout, v.available_at, null, null, null)::new_job
    from listed i
    join needed n on n.type is not distinct from i.type and n.priority = i.priority
    join unnest(v_rows) as v on v.ordinal = i.ordinal
    order by i.ordinal);

  return query select e.job_id, e.created from enqueue_rows(v_rows, v_now) as e order by e.ordinal;
end
$$;
comment on function fencepost.enqueue_many(jsonb)
  is 'Enqueues a JSON array of jobs (keys as the parameters of enqueue), all or nothing; returns job_id and created in input order. Raises JE003, JE005, JE006, JE007.';
