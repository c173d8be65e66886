-- Takes work: up to `max` jobs of these types, highest priority first, then oldest first.
--
-- A worker is known by its name. An unknown name is registered, and so is one that was lost: its old jobs are then
-- not its own any more. Sessions that claim under one name at once are one worker. Call heartbeat() at least every third of the ttl while jobs run, or give a ttl that is some
-- seconds longer than any job takes. Types that nobody has enqueued yet simply have no jobs.
--
-- Commit before the work begins. Whoever completes in the same transaction keeps others from the job meanwhile, and may be
-- ended with 40P01 when somebody pauses or cancels the run that it belongs to: see complete().
--
-- Locks: none that it waits for, but a session that is registering the same name. Errors: JE003; JE010 only if the name
-- is lost again and again while it claims (a lost worker starts anew).
create function fencepost.claim(worker text, types text[], max int default 1, ttl interval default null)
returns table (job_id bigint, token int, type text, attempt int, max_attempts int, payload jsonb, headers jsonb, priority int,
               tenant text, idempotency_key text, created_at timestamptz, deadline timestamptz, run_id bigint, task_id bigint)
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_now    timestamptz := fencepost_private.now();
  v_worker record;
  v_id     int;
  v_status worker_status;
begin
  perform check_claim(claim.types, claim.max);
  perform check_worker(claim.worker, coalesce(claim.ttl, interval '30 seconds'));
  -- Again when it was lost, or said goodbye, while we looked. A claim is a sign of life, written each second at most:
  -- a worker that never calls heartbeat() has its whole ttl for a job, less that second.
  for v_try in 1..3 loop
    select w.worker_id, w.ttl, w.types, w.heartbeat_at < v_now - least(w.ttl / 3, interval '1 second') as is_due into v_worker
    from worker w
    where w.name = claim.worker and w.status in ('active', 'draining')
    order by w.worker_id desc limit 1;
    if not found then
      v_id := add_worker(claim.worker, '', 0, claim.types, coalesce(claim.ttl, interval '30 seconds'), current_tenant(), null, v_now);
    else
      v_id := v_worker.worker_id;
      -- types are added as they come and told anew with each heartbeat: a row that is written often costs all who read it
      if v_worker.is_due or v_worker.ttl <> claim.ttl or not v_worker.types @> claim.types then
        update worker w
        set heartbeat_at = v_now, suspect_at = null, returned_at = case when w.heartbeat_at < v_now - w.ttl then v_now else w.returned_at end,
            ttl = coalesce(claim.ttl, w.ttl),
            types = case when v_worker.is_due then claim.types else array(select unnest(w.types) union select unnest(claim.types)) end
        where w.worker_id = (select p.worker_id from worker p where p.worker_id = v_id and p.status in ('active', 'draining')
                             for no key update skip locked);   -- else somebody writes it now
      end if;
    end if;
    v_status := status_for_claim(v_id);
    exit when v_status in ('active', 'draining');
  end loop;
  if v_status is null or v_status in ('lost', 'stopped') then
    perform raise_worker_lost(claim.worker, v_status);
  elsif v_status = 'draining' then
    return;
  end if;

  return query select * from claim_jobs(v_id, claim.types, claim.max, v_now);
  if not found and claim.max > 0 and promote(1000, null, v_now) > 0 then
    return query select * from claim_jobs(v_id, claim.types, claim.max, v_now);
  end if;
end
$$;
comment on function fencepost.claim(text, text[], int, interval)
  is 'Leases up to max jobs of these types to the named worker (registered if unknown) and returns them with their fencing tokens. Never waits. Raises JE003.';

-- What a claim refuses before it begins. Errors: JE003.
create function fencepost_private.check_claim(p_types text[], p_max int)
returns void
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    perform raise_error('JE003', 'jobs are claimed in READ COMMITTED only', format('received a transaction that is %s', upper(current_setting('transaction_isolation'))),
      'A claim must see what was committed a moment ago: run it in a transaction of its own.');
  end if;
  perform check_types(p_types);
  if p_max is null or p_max not between 0 and 10000 then
    perform raise_error('JE003', 'max must be from 0 to 10000', format('received max = %s', coalesce(p_max::text, 'null')), 'Claim no more than can start soon.');
  end if;
end
$$;
comment on function fencepost_private.check_claim(text[], int) is 'Raises JE003 when a claim makes no sense, or runs outside READ COMMITTED.';

-- Errors: JE003 when these are no names of types.
create function fencepost_private.check_types(p_types text[])
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
begin
  if p_types is null or array_position(p_types, null) is not null then
    perform raise_error('JE003', 'types must be an array of names', format('received %s', coalesce(p_types::text, 'null')), 'For example array[''email.send''].');
  end if;
end
$$;
comment on function fencepost_private.check_types(text[]) is 'Raises JE003 unless these are names of types.';

-- Opens a worker's claim: takes its shared lock, then reads its status, in this order. The final sweep of an ended
-- worker takes the lock exclusively, so a claim that commits late is swept too. Null: unknown, or being swept.
create function fencepost_private.status_for_claim(p_worker_id int)
returns fencepost_private.worker_status
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_status worker_status;
begin
  if pg_try_advisory_xact_lock_shared(lock_worker(), p_worker_id) then
    select w.status into v_status from worker w where w.worker_id = p_worker_id;
  end if;
  return v_status;
end
$$;
comment on function fencepost_private.status_for_claim(int) is 'Locks a worker against its final sweep and returns its status; null when it is unknown or being swept.';

-- The same for a worker that must be present. True: it may claim. False: it is draining.
-- Errors: JE010 when the worker is lost, stopped or unknown.
create function fencepost_private.enter_worker(p_worker_id int)
returns boolean
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_status worker_status := status_for_claim(p_worker_id);
begin
  if v_status is null or v_status in ('lost', 'stopped') then
    perform raise_worker_lost(p_worker_id::text, v_status);
  end if;
  return v_status = 'active';
end
$$;
comment on function fencepost_private.enter_worker(int) is 'Locks a worker against its final sweep and says whether it may claim. Raises JE010.';

create function fencepost_private.raise_worker_lost(p_worker text, p_status fencepost_private.worker_status)
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
begin
  if p_worker is null then
    perform raise_error('JE003', 'a worker must be named', 'received null', 'Give the number that register_worker() returned, or the name of the worker.');
  end if;
  perform raise_error('JE010', format('worker %s is %s', p_worker, coalesce(p_status::text, 'unknown')), format('received worker = %s', p_worker),
    'Its jobs belong to others now: stop their handlers, then register again with fencepost.register_worker().');
end
$$;
comment on function fencepost_private.raise_worker_lost(text, fencepost_private.worker_status) is 'Raises JE010 for a worker that is lost, stopped or unknown, JE003 for none.';
