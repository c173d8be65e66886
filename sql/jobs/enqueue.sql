-- Enqueues one job, in the caller's transaction: it exists when that commits, and never if it rolls back.
--
--   type             what kind of work, such as 'email.send'; a new name makes a new type
--   payload          JSON for the handler, default {}; at most 1 MiB unless the type says otherwise
--   priority         0 to 9, higher first, default 5; equal priorities run in order of enqueue
--   run_at, delay    not before this time, or not before this long from now; give at most one
--   idempotency_key  the same key for the same type and tenant gives the same job, while that job is kept
--   max_attempts     its own limit; default the type's
--   timeout          its own limit for one attempt; default the type's
--   headers          JSON object of metadata, such as traceparent
--   tenant           whose job it is; default the session's
--
-- Returns the id of the job: the new one, or the one that has the key.
-- Locks: the first job of a type, or of a priority in it, makes their rows, and whoever needs the same ones waits for
-- that transaction; declare_type() makes the type and
-- its default priority beforehand, in a transaction of its own. Else a concurrent enqueue of the same key is waited for.
-- Errors: JE003, JE005 (key used with another payload), JE006 (payload too large or failing the type's check), JE007.
create function fencepost.enqueue(
  type text,
  payload jsonb default '{}',
  priority int default 5,
  run_at timestamptz default null,
  delay interval default null,
  idempotency_key text default null,
  max_attempts int default null,
  timeout interval default null,
  headers jsonb default null,
  tenant text default null)
returns bigint
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_now  timestamptz := fencepost_private.now();
  v_lane record;
  v_job  new_job;
  v_id   bigint;
begin
  select e.lane_id, e.type_id into v_lane from ensure_lane(enqueue.type, enqueue.priority) as e;
  perform check_job_options(enqueue.run_at, enqueue.delay, enqueue.idempotency_key, enqueue.max_attempts, enqueue.timeout, enqueue.headers,
                            enqueue.tenant);

  v_job.id := nextval('job_id_seq');
  v_job.ordinal := 1;
  v_job.type_id := v_lane.type_id;
  v_job.lane_id := v_lane.lane_id;
  v_job.tenant := coalesce(enqueue.tenant, current_tenant());
  v_job.payload := coalesce(enqueue.payload, '{}');
  v_job.headers := enqueue.headers;
  v_job.idempotency_key := enqueue.idempotency_key;
  v_job.max_attempts := enqueue.max_attempts;
  v_job.timeout := enqueue.timeout;
  v_job.available_at := coalesce(enqueue.run_at, v_now + enqueue.delay);

  select e.job_id into v_id from enqueue_rows(array[v_job], v_now) as e;
  return v_id;
end
$$;
comment on function fencepost.enqueue(text, jsonb, int, timestamptz, interval, text, int, interval, jsonb, text)
  is 'Enqueues one job in the caller''s transaction and returns its id; with a used idempotency key, the id of the job that has it. Raises JE003, JE005, JE006, JE007.';

-- What every enqueue checks of a job's options. Errors: JE003, naming the option.
create function fencepost_private.check_job_options(
  p_run_at timestamptz, p_delay interval, p_idempotency_key text, p_max_attempts int, p_timeout interval, p_headers jsonb,
  p_tenant text default null, p_where text default '')
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
declare
  v_problem text[];
begin
  if p_run_at is null and p_delay is null and p_idempotency_key is null and p_max_attempts is null and p_timeout is null and p_headers is null
     and p_tenant is null then
    return;
  end if;
  v_problem := case
    when p_run_at is not null and p_delay is not null then
      array['give run_at or delay, not both', format('run_at = %s, delay = %s', p_run_at, p_delay), 'Use run_at for a moment, delay for a time from now.']
    when p_delay < interval '0' then
      array['the delay must not be negative', format('delay = %s', p_delay), 'Leave it out to run at once.']
    when p_delay > interval '100 years' then
      array['the delay must be at most 100 years', format('delay = %s', p_delay), 'To hold work back without an end, pause the type.']
    when not isfinite(p_run_at) then
      array['run_at must be a moment in time', format('run_at = %s', p_run_at), 'To hold work back without an end, pause the type.']
    when length(p_idempotency_key) not between 1 and 500 then
      array['the idempotency key must have 1 to 500 characters', format('%s characters', length(p_idempotency_key)), 'Hash a longer key.']
    when p_max_attempts not between 1 and 1000000 then
      array['max_attempts must be from 1 to 1000000', format('max_attempts = %s', p_max_attempts), 'Use 1 for a job that must not be tried again.']
    when p_timeout <= interval '0' or p_timeout > interval '100 years' then
      array['the timeout must be longer than nothing, and at most 100 years', format('timeout = %s', p_timeout), 'Leave it out for no limit.']
    when jsonb_typeof(p_headers) <> 'object' then
      array['headers must be a JSON object', format('headers = %s', left(p_headers::text, 200)), 'For example {"traceparent": "…"}.']
    when octet_length(p_headers::text) > 65536 then
      array['headers must not exceed 64 KiB', format('%s bytes', octet_length(p_headers::text)), 'They are for metadata: data belongs into the payload.']
    when length(p_tenant) > 100 then
      array['the tenant must have at most 100 characters', format('%s characters', length(p_tenant)), 'Use a short name or number of the tenant.']
  end;
  if v_problem is not null then
    perform raise_error('JE003', p_where || v_problem[1], 'received ' || v_problem[2], v_problem[3]);
  end if;
end
$$;
comment on function fencepost_private.check_job_options(timestamptz, interval, text, int, interval, jsonb, text, text)
  is 'Raises JE003 for the first option of a new job that makes no sense.';
