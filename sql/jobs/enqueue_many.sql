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
  v_keys constant jsonb := '{
    "type": {"is": "string", "must_be": "a text"}, "payload": {}, "priority": {"is": "number", "must_be": "a whole number from 0 to 9"},
    "run_at": {"is": "string", "must_be": "a time such as \"2030-01-31T12:00:00Z\""}, "delay": {"is": "string", "must_be": "an interval such as \"10 minutes\""},
    "idempotency_key": {"is": "string", "must_be": "a text"}, "max_attempts": {"is": "number", "must_be": "a whole number from 1 to 1000000"},
    "timeout": {"is": "string", "must_be": "an interval such as \"10 minutes\""}, "headers": {}, "tenant": {"is": "string", "must_be": "a text"}}'::jsonb;
  v_bad  record;
  v_rows new_job[];
begin
  if enqueue_many.jobs is null or jsonb_typeof(enqueue_many.jobs) <> 'array' then
    perform raise_error('JE003', 'jobs must be a JSON array of objects', format('received %s', coalesce(jsonb_typeof(enqueue_many.jobs), 'null')),
      'For example [{"type": "email.send", "payload": {"to": "a@b.c"}}].');
  end if;
  select e.ordinal, jsonb_typeof(e.item) as kind, k.key, k.value into v_bad
  from jsonb_array_elements(enqueue_many.jobs) with ordinality as e(item, ordinal)
  left join lateral (
    select o.key, o.value from jsonb_each(case jsonb_typeof(e.item) when 'object' then e.item else '{}' end) as o(key, value)
    where not v_keys ? o.key or jsonb_typeof(o.value) not in (v_keys -> o.key ->> 'is', 'null') limit 1) as k on true
  where jsonb_typeof(e.item) <> 'object' or k.key is not null
  order by e.ordinal limit 1;
  if v_bad.key is null and v_bad.kind is not null then
    perform raise_error('JE003', format('job %s of the list is not an object', v_bad.ordinal), format('received %s', v_bad.kind), 'For example {"type": "email.send"}.');
  elsif not v_keys ? v_bad.key then
    perform raise_error('JE003', format('job %s of the list has the unknown key %s', v_bad.ordinal, quote_literal(v_bad.key)), format('received %s', quote_literal(v_bad.key)),
      coalesce(did_you_mean(v_bad.key, array(select k from jsonb_object_keys(v_keys) as k)), '') || 'Known keys: ' || (select string_agg(k, ', ') from jsonb_object_keys(v_keys) as k) || '.');
  elsif v_bad.key is not null then
    perform raise_wrong_value(v_bad.ordinal, v_bad.key, v_bad.value, v_keys);
  end if;

  begin
    v_rows := array(
      select row(null, e.ordinal, null, r.priority, coalesce(r.tenant, current_tenant()), coalesce(r.payload, '{}'), r.headers,
                 r.idempotency_key, r.max_attempts, r.timeout, coalesce(r.run_at, v_now + r.delay), null, null, null)::new_job
      from jsonb_array_elements(enqueue_many.jobs) with ordinality as e(item, ordinal)
      cross join lateral jsonb_to_record(e.item) as r(type text, payload jsonb, priority int, run_at timestamptz, delay interval, idempotency_key text, max_attempts int, timeout interval, headers jsonb, tenant text)
      order by e.ordinal);
  exception when data_exception then
    perform raise_wrong_value(b.ordinal, b.key, b.value, v_keys) from first_wrong_value(enqueue_many.jobs) as b where b.ordinal is not null;
    raise;
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

create function fencepost_private.raise_wrong_value(p_ordinal bigint, p_key text, p_value jsonb, p_keys jsonb)
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
begin
  perform raise_error('JE003', format('job %s of the list: %s must be %s', p_ordinal, p_key, p_keys -> p_key ->> 'must_be'), format('received %s = %s', p_key, left(p_value::text, 200)), 'Leave it out for the default.');
end
$$;
comment on function fencepost_private.raise_wrong_value(bigint, text, jsonb, jsonb) is 'Raises JE003 for a value of a job in a list, naming its place.';

-- The first value in a list of jobs that is of the right JSON type and still no number, time or interval, or beyond the
-- calendar.
create function fencepost_private.first_wrong_value(p_jobs jsonb, out ordinal bigint, out key text, out value jsonb)
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
#variable_conflict use_column
begin
  for ordinal, key, value in
    select e.ordinal, o.key, o.value from jsonb_array_elements(p_jobs) with ordinality as e(item, ordinal) cross join lateral jsonb_each(e.item) as o
    where o.key in ('priority', 'max_attempts', 'run_at', 'delay', 'timeout') order by e.ordinal
  loop
    begin
      perform r.*, fencepost_private.now() + r.delay from jsonb_to_record(jsonb_build_object(key, value)) as r(priority int, max_attempts int, run_at timestamptz, delay interval, timeout interval);
    exception when data_exception then
      return;
    end;
  end loop;
  ordinal := null;
end
$$;
comment on function fencepost_private.first_wrong_value(jsonb) is 'The first value in a list of jobs that PostgreSQL cannot read, with its place.';
