-- Enqueues many jobs of one type, the fast way: one call, one statement a table.
-- Returns their ids in the order of the payloads. Errors: JE003, JE006, JE007; all or nothing.
create function fencepost.enqueue_batch(type text, payloads jsonb[], priority int default 5, delay interval default null, tenant text default null)
returns bigint[]
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_now    timestamptz := fencepost_private.now();
  v_lane   record;
  v_tenant text := coalesce(enqueue_batch.tenant, current_tenant());
  v_ids    bigint[];
begin
  if enqueue_batch.payloads is null or cardinality(enqueue_batch.payloads) = 0 then
    return '{}'::bigint[];
  end if;
  select e.lane_id, e.type_id into v_lane from ensure_lane(enqueue_batch.type, enqueue_batch.priority) as e;
  perform check_job_options(null, enqueue_batch.delay, null, null, null, null, enqueue_batch.tenant);

  select array_agg(e.job_id) into v_ids
  from enqueue_rows(array(
    select row(nextval('job_id_seq'), p.ordinal, v_lane.type_id, v_lane.lane_id, v_tenant, coalesce(p.payload, '{}'), null, null, null, null,
               v_now + enqueue_batch.delay, null, null, null)::new_job
    from unnest(enqueue_batch.payloads) with ordinality as p(payload, ordinal)
  ), v_now) as e;
  return v_ids;
end
$$;
comment on function fencepost.enqueue_batch(text, jsonb[], int, interval, text)
  is 'Enqueues one job for each payload, all or nothing, and returns their ids in that order. Raises JE003, JE006, JE007.';
