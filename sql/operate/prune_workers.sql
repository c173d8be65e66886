-- Removes workers that ended more than thirty days ago, and longer ago than any type keeps its finished jobs: so the
-- name of a worker can be shown as long as the attempts it made. Returns how many.
create function fencepost_private.prune_workers()
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_pruned bigint;
begin
  delete from worker w
  where w.swept and w.status in ('lost', 'stopped')
    and w.ended_at < fencepost_private.now() - greatest(interval '30 days', longest_keep());
  get diagnostics v_pruned = row_count;
  return v_pruned;
end
$$;
comment on function fencepost_private.prune_workers() is 'A step of maintain(): removes workers that ended long ago. Returns how many.';
