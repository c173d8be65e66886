-- A worker says goodbye. Jobs that it still holds are taken back by the next maintain(), as an expired lease; give
-- unstarted ones back with release_many() before.
-- Errors: JE002 (no such worker). Saying goodbye twice changes nothing.
create function fencepost.stop_worker(worker_id int)
returns void
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_now timestamptz := fencepost_private.now();
begin
  update worker w set status = 'stopped', ended_at = v_now
  where w.worker_id = stop_worker.worker_id and w.status in ('active', 'draining');
  if not found and not exists (select from worker w where w.worker_id = stop_worker.worker_id) then
    perform raise_error('JE002', format('worker %s does not exist', coalesce(stop_worker.worker_id::text, 'null')), format('received worker_id = %s', coalesce(stop_worker.worker_id::text, 'null')),
      'The number is what register_worker() returned.');
  end if;
end
$$;
comment on function fencepost.stop_worker(int) is 'Says that a worker process ends. Jobs that it still holds are taken back. Raises JE002.';
