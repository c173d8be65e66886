-- One job or run that cannot be moved does not stop a step of maintain(): the step does it all in one go, and looks for
-- who is at fault only when that fails.

-- Does a call for all of these items. When that raises, each half of them is tried by itself, and its halves, so that all
-- is done but for those that raise alone: they are noted in maintain_failure, and left alone until next_at.
-- Of n items, one that raises costs some 2 log n calls, once in its while.
--
-- p_call is a call of a private function that returns how much it did, with $1 for the items, $2 for the time, and
-- what else it needs as $3 and $4. The caller has locked the runs. Returns the sum.
-- Errors: those that are no item's fault: locks that were not to be had, lack of memory or room, a server that stops.
create function fencepost_private.isolated(
  p_step text, p_call text, p_items bigint[], p_now timestamptz, p_one bigint[] default null, p_other bigint[] default null)
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_half int := cardinality(p_items) / 2;
  v_done bigint;
begin
  if cardinality(p_items) = 0 then
    return 0;
  end if;
  begin
    execute 'select fencepost_private.' || p_call into v_done using p_items, p_now, p_one, p_other;
    if exists (select from maintain_failure f where f.step = p_step) then
      delete from maintain_failure f where f.step = p_step and f.item = any (p_items);
    end if;
    return v_done;
  exception
    when lock_not_available or transaction_rollback or insufficient_resources or operator_intervention then
      raise;
    when others then
      if v_half = 0 then
        insert into maintain_failure as f (step, item, error, failures, first_at, next_at)
        values (p_step, p_items[1], format('%s: %s', sqlstate, sqlerrm), 1, p_now, p_now + interval '1 second')
        on conflict on constraint maintain_failure_pkey do update
        set error = excluded.error, failures = f.failures + 1, next_at = p_now + least(interval '1 second' * power(2, least(f.failures, 20)), interval '10 minutes');
        return 0;
      end if;
  end;
  return isolated(p_step, p_call, p_items[:v_half], p_now, p_one, p_other) + isolated(p_step, p_call, p_items[v_half + 1:], p_now, p_one, p_other);
end
$$;
comment on function fencepost_private.isolated(text, text, bigint[], timestamptz, bigint[], bigint[]) is
  'Does a call for these items, all at once if it can be, and without those that raise if not. Returns how much was done.';

-- The items that a step leaves alone for now, since they raised.
create function fencepost_private.left_alone(p_step text, p_now timestamptz)
returns bigint[]
language sql
stable
set search_path = fencepost_private, pg_temp
as $$
  select array(select f.item from maintain_failure f where f.step = p_step and f.next_at > p_now)
$$;
comment on function fencepost_private.left_alone(text, timestamptz) is 'The items that a step of maintain() leaves alone for now, since they raised.';

-- Forgets what was not tried again for an hour: it is no longer due. Returns how many.
create function fencepost_private.prune_failures()
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_pruned bigint;
begin
  delete from maintain_failure f where f.next_at < fencepost_private.now() - interval '1 hour';
  get diagnostics v_pruned = row_count;
  return v_pruned;
end
$$;
comment on function fencepost_private.prune_failures() is 'A step of maintain(): forgets failures of what is no longer due. Returns how many.';
