-- Records a checkpoint of a running job, once: the first value stays, and later calls get it back. A retried attempt
-- so skips what an earlier one has done.
-- Locks: the lease is held to the end of the transaction, so that a fenced attempt records nothing.
-- Errors: JE001, JE002, JE003 (name), JE006 (value larger than a payload of its type may be).
create function fencepost.step(job_id bigint, token int, name text, value jsonb default null)
returns jsonb
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
#variable_conflict use_column
declare
  v_value jsonb;
begin
  if step.name is null or length(step.name) not between 1 and 200 then
    perform raise_error('JE003', 'a step needs a name of 1 to 200 characters', format('received %s', coalesce(left(quote_literal(step.name), 100), 'null')), 'The name is unique in its job.');
  end if;
  perform hold_lease(step.job_id, step.token);
  perform check_results(array[step.job_id], array[step.value], 'step');
  insert into step (job_id, name, value, token, at)
  values (step.job_id, step.name, step.value, step.token, fencepost_private.now())
  on conflict on constraint step_pkey do nothing;
  select s.value into v_value from step s where s.job_id = step.job_id and s.name = step.name;
  return v_value;
end
$$;
comment on function fencepost.step(bigint, int, text, jsonb) is 'Records a checkpoint of a running job once and returns what is recorded. Raises JE001, JE002, JE003, JE006.';

-- Locks the lease against its end, until commit; heartbeats and requests to cancel do not wait for it.
-- Errors: JE001, JE002.
create function fencepost_private.hold_lease(p_job_id bigint, p_token int)
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
begin
  perform from lease l where l.id = p_job_id and l.token = p_token for key share;
  if not found then
    perform raise_lease_lost(p_job_id, p_token);
  end if;
end
$$;
comment on function fencepost_private.hold_lease(bigint, int) is 'Holds a lease to the end of the transaction, against its end alone. Raises JE001, JE002.';
