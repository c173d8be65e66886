-- Registers a worker process: a new incarnation, whose number is never used again. If the same name on the same host
-- and slot is still registered, that one is declared lost: this is its restart, and its jobs go to others at once.
-- The worker then calls exchange() or heartbeat() at least every third of its ttl.
--   types     what it works on, for explain_job and doctor
--   ttl       how long it may be silent before its jobs are taken back, 1 second to 1 day
--   protocol  version of the worker protocol that the client speaks
--   info      JSON about itself: version, pid, slots, language
-- Errors: JE003, JE011 (protocol unknown to this schema).
create function fencepost.register_worker(
  name text, hostname text default '', slot int default 0, types text[] default '{}', ttl interval default '30 seconds',
  protocol int default 1, info jsonb default null, tenant text default null)
returns int
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
#variable_conflict use_column
declare
  v_now timestamptz := fencepost_private.now();
  v_old int;
  v_id  int;
begin
  if register_worker.protocol is distinct from 1 then
    perform raise_error('JE011', 'this schema speaks worker protocol 1', format('received protocol = %s', coalesce(register_worker.protocol::text, 'null')),
      'Upgrade the client, or run fencepost migrate with the version of the client.');
  end if;
  perform check_worker(register_worker.name, register_worker.ttl), check_types(coalesce(register_worker.types, '{}'));

  -- again while another session registers the same name at the same time: the later one wins
  while v_id is null loop
    update worker w set status = 'lost', ended_at = v_now
    where w.name = register_worker.name and w.hostname = coalesce(register_worker.hostname, '') and w.slot = coalesce(register_worker.slot, 0)
      and w.status in ('active', 'draining')
    returning w.worker_id into v_old;
    v_id := add_worker(register_worker.name, coalesce(register_worker.hostname, ''), coalesce(register_worker.slot, 0), coalesce(register_worker.types, '{}'),
                       register_worker.ttl, coalesce(register_worker.tenant, current_tenant()), register_worker.info, v_now);
  end loop;
  insert into event (xid, at, tenant, kind, worker_id, data)
  select xid(), v_now, w.tenant, 'worker.lost', w.worker_id, jsonb_build_object('worker', w.name, 'reason', 'registered again', 'successor', v_id)
  from worker w where w.worker_id = v_old;
  return v_id;
end
$$;
comment on function fencepost.register_worker(text, text, int, text[], interval, int, jsonb, text)
  is 'Registers a worker process and returns its number, new for each incarnation; an older one of the same name, host and slot is lost. Raises JE003, JE011.';

-- Errors: JE003 for a name or a ttl that no worker may have.
create function fencepost_private.check_worker(p_name text, p_ttl interval)
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
begin
  if p_name is null or length(p_name) not between 1 and 200 then
    perform raise_error('JE003', 'a worker needs a name of 1 to 200 characters', format('received %s', coalesce(left(quote_literal(p_name), 100), 'null')),
      'Use something that a person recognises, such as the service and host.');
  end if;
  if p_ttl is null or p_ttl not between interval '1 second' and interval '1 day' then
    perform raise_error('JE003', 'the ttl of a worker must be from 1 second to 1 day', format('received ttl = %s', coalesce(p_ttl::text, 'null')),
      'The default is 30 seconds; a worker that never calls heartbeat() needs one longer than its jobs.');
  end if;
end
$$;
comment on function fencepost_private.check_worker(text, interval) is 'Raises JE003 for a name or a ttl that no worker may have.';

-- A new incarnation, unless one of that name, host and slot is present: then null, and the next statement sees it.
-- Waits for a session that is registering the same.
create function fencepost_private.add_worker(
  p_name text, p_hostname text, p_slot int, p_types text[], p_ttl interval, p_tenant text, p_info jsonb, p_now timestamptz)
returns int
language sql
volatile
set search_path = fencepost_private, pg_temp
as $$
  insert into worker (name, hostname, slot, tenant, types, ttl, started_at, heartbeat_at, info)
  values (p_name, p_hostname, p_slot, p_tenant, p_types, p_ttl, p_now, p_now, p_info)
  on conflict (name, hostname, slot) where status in ('active', 'draining') do nothing
  returning worker_id
$$;
comment on function fencepost_private.add_worker(text, text, int, text[], interval, text, jsonb, timestamptz)
  is 'Adds a worker and returns its number; null when one of that name, host and slot is present.';
