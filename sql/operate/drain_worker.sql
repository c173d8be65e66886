-- Asks a worker to finish what it runs and take nothing new: it hears of it with its next heartbeat or exchange, and
-- by a notification if it listens. Asking twice changes nothing.
-- Locks: the row of the worker. Errors: JE002 (no such worker); JE004 when it was lost or has stopped.
create function fencepost.drain_worker(worker_id int)
returns void
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_worker worker;
begin
  select w.* into v_worker from worker w where w.worker_id = drain_worker.worker_id for no key update;
  if not found then
    perform raise_error('JE002', format('worker %s does not exist', coalesce(drain_worker.worker_id::text, 'null')),
      format('received worker_id = %s', coalesce(drain_worker.worker_id::text, 'null')), 'See fencepost.workers.');
  elsif v_worker.status in ('lost', 'stopped') then
    perform raise_error('JE004', format('worker %s is %s and cannot be drained', v_worker.worker_id, v_worker.status),
      format('received worker_id = %s', v_worker.worker_id), 'Only active workers can.');
  elsif v_worker.status = 'draining' then
    return;
  end if;

  update worker w set status = 'draining' where w.worker_id = v_worker.worker_id;
  insert into event (xid, at, tenant, kind, worker_id, actor, data)
  values (xid(), fencepost_private.now(), v_worker.tenant, 'worker.draining', v_worker.worker_id, actor(), jsonb_build_object('worker', v_worker.name));
  if current_setting('fencepost.wake', true) is distinct from 'off' then
    perform pg_notify('fencepost', format('{"worker":%s,"drain":true}', v_worker.worker_id));
  end if;
end
$$;
comment on function fencepost.drain_worker(int) is 'Asks a worker to finish what it runs and take nothing new. Raises JE002, JE004.';
