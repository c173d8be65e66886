-- One job or run that cannot be moved does not stop a step of maintain(): the step does it all in one go, and looks for
-- who is at fault only when that fails.

-- Does a call for all of these items. When that raises, each half of them is tried by itself, and its halves, so that all
-- is done but for those that raise alone: they are noted in maintain_failure, and left alone until next_at. So are those
-- that wait for a lock which is not to be had; that passes, so they are tried again within ten seconds. Where so many
-- wait that it has taken three seconds, what is left comes with the next pass, without those that are noted by then.
-- Of n items, one that raises costs some 2 log n calls, once in its while.
--
-- p_call is a call of a private function that returns how much it did, with $1 for the items, $2 for the time, and
-- what else it needs as $3 and $4. The caller has locked the runs. Returns the sum.
-- Errors: those that are no item's fault: deadlocks, lack of memory or room, a server that stops.
create function fencepost_private.isolated(
  p_step text, p_call text, p_items bigint[], p_now timestamptz, p_one bigint[] default null, p_other bigint[] default null)
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_done bigint;
  v_at   timestamptz;
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
    when transaction_rollback or insufficient_resources or operator_intervention then
      raise;
    when others then
      v_at := fencepost_private.now();
      if cardinality(p_items) = 1 then
        insert into maintain_failure as f (step, item, error, failures, first_at, next_at)
        values (p_step, p_items[1], format('%s: %s', sqlstate, sqlerrm), 1, p_now, v_at + retry_after(sqlstate, 0))
        on conflict on constraint maintain_failure_pkey do update
        set error = excluded.error, failures = f.failures + 1, next_at = v_at + retry_after(sqlstate, f.failures);
        return 0;
      elsif sqlstate = '55P03' and v_at > p_now + interval '3 seconds' then
        return 0;
      end if;
  end;
  return isolated_halves(p_step, p_call, p_items, p_now, p_one, p_other);
end
$$;
comment on function fencepost_private.isolated(text, text, bigint[], timestamptz, bigint[], bigint[]) is
  'Does a call for these items, all at once if it can be, and without those that raise if not. Returns how much was done.';

-- The same for each half. All together have waited for their locks as long as maintain() allows; now there may be hundreds
-- of waits. Either half may be first, so that none is always among those for which there was no time.
create function fencepost_private.isolated_halves(p_step text, p_call text, p_items bigint[], p_now timestamptz, p_one bigint[], p_other bigint[])
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set lock_timeout = '2ms'
as $$
declare
  v_half   int := cardinality(p_items) / 2;
  v_first  bigint[] := p_items[:v_half];
  v_second bigint[] := p_items[v_half + 1:];
begin
  if random() < 0.5 then
    return isolated(p_step, p_call, v_first, p_now, p_one, p_other) + isolated(p_step, p_call, v_second, p_now, p_one, p_other);
  end if;
  return isolated(p_step, p_call, v_second, p_now, p_one, p_other) + isolated(p_step, p_call, v_first, p_now, p_one, p_other);
end
$$;
comment on function fencepost_private.isolated_halves(text, text, bigint[], timestamptz, bigint[], bigint[]) is 'isolated() for each half of these items, which wait for locks no longer.';

-- When housekeeping tries again what failed, after p_failures earlier ones: each time after twice as long, up to ten
-- minutes; up to ten seconds when it was for a lock.
create function fencepost_private.retry_after(p_sqlstate text, p_failures int, p_first interval default '1 second')
returns interval
language sql
immutable
set search_path = fencepost_private, pg_temp
as $$
  select least(p_first * power(2, least(p_failures, 20)), case p_sqlstate when '55P03' then interval '10 seconds' else interval '10 minutes' end)
$$;
comment on function fencepost_private.retry_after(text, int, interval) is 'How long housekeeping waits before it tries again what failed.';

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
