-- Waking idle workers, at no cost while they are busy.
--
-- A worker that is about to sleep holds a *shared* session lock for each of its wake groups (a type belongs to group
-- type_id modulo 16). Whoever makes work available tries that lock exclusively after its insert: if nobody sleeps it
-- gets it, gives it back in the same expression, and nothing else happens; if it fails, somebody sleeps, and a NOTIFY
-- goes out with the commit. Between "found nothing" and "holds the lock" a job could be missed: see sleep_horizon.

-- Notifies the sleepers of these types, if there are any. Call it after the insert, so that the transaction has an id.
-- fencepost.wake = off suppresses it, for transactions that will be prepared (NOTIFY forbids two-phase commit).
create function fencepost_private.wake(p_type_ids int[])
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
begin
  if p_type_ids is null or current_setting('fencepost.wake', true) = 'off' then
    return;
  end if;
  perform pg_notify('fencepost', format('{"wake":[%s]}', g.wake_group))
  from (select distinct t.type_id % 16 as wake_group from unnest(p_type_ids) as t(type_id)) as g
  -- one expression: no interrupt can leave the lock behind
  where not (case when pg_try_advisory_lock(lock_sleepers(), g.wake_group)
                  then pg_advisory_unlock(lock_sleepers(), g.wake_group)
                  else false end);
end
$$;
comment on function fencepost_private.wake(int[]) is 'Notifies sleeping workers of these types; costs one try-lock for each wake group when nobody sleeps.';

-- The worker's side, each call in a statement and transaction of its own:
--   1. sleep_lock   2. sleep_horizon   3. claim once more   4. sleep until notified.
-- Whoever wrote before step 1, and so saw no sleeper, is in flight below the horizon of step 2. While sleep_pending
-- says that such transactions remain, the worker looks again each time their number falls.

create function fencepost.wake_groups(types text[]) returns int[]
language sql stable security definer
set search_path = fencepost_private, pg_temp
as $$
  select coalesce(array_agg(distinct t.type_id % 16 order by t.type_id % 16), '{}')
  from job_type t
  where t.type = any (wake_groups.types)
$$;
comment on function fencepost.wake_groups(text[]) is 'The wake groups (0 to 15) of these types, for a worker that is about to sleep. Unknown types have none.';

create function fencepost.sleep_lock(groups int[]) returns void
language sql volatile security definer
set search_path = fencepost_private, pg_temp
as $$
  select pg_advisory_lock_shared(lock_sleepers(), g) from unnest(sleep_lock.groups) as g order by g
$$;
comment on function fencepost.sleep_lock(int[]) is 'Says that this session sleeps: enqueuers of these wake groups notify until sleep_unlock. A session lock: needs a connection of its own.';

create function fencepost.sleep_unlock(groups int[]) returns void
language sql volatile security definer
set search_path = fencepost_private, pg_temp
as $$
  select pg_advisory_unlock_shared(lock_sleepers(), g) from unnest(sleep_unlock.groups) as g
$$;
comment on function fencepost.sleep_unlock(int[]) is 'Says that this session is awake again.';

create function fencepost.sleep_pending(horizon bigint) returns bigint
language sql volatile security definer
set search_path = fencepost_private, pg_temp
as $$
  select greatest(0, sleep_pending.horizon - pg_snapshot_xmax(s.snap)::text::bigint)
       + (select count(*) from pg_snapshot_xip(s.snap) as x where x::text::bigint < sleep_pending.horizon)
  from (select pg_current_snapshot() as snap) as s
$$;
-- The horizon is the *next* transaction id, which a snapshot does not tell: its xmax is only the last completed id
-- plus one. age() counts from the next id as long as this transaction has none itself.
create function fencepost.sleep_horizon(out horizon bigint, out pending bigint)
language sql volatile security definer
set search_path = fencepost_private, pg_temp
as $$
  select h.horizon, fencepost.sleep_pending(h.horizon)
  from (select x::text::bigint + age(x::xid) as horizon from pg_snapshot_xmax(pg_current_snapshot()) as x offset 0) as h
$$;

comment on function fencepost.sleep_horizon() is 'The next transaction id, and how many transactions below it have not ended. Call it outside any transaction that has written.';
comment on function fencepost.sleep_pending(bigint) is 'How many transactions below a horizon have not ended. It only falls; a job may have appeared each time it does.';

-- When the next delayed job of these types is due, so that a sleeper wakes in time. The look is bounded: a job beyond
-- the first thousand is found by the slow poll.
create function fencepost.next_due(types text[]) returns timestamptz
language sql volatile security definer
set search_path = fencepost_private, pg_temp
as $$
  select min(d.available_at)
  from (select d.available_at, d.lane_id from delayed d
        where d.available_at >= fencepost_private.now() - interval '2 seconds'
        order by d.available_at limit 1000) as d
  join lane l on l.lane_id = d.lane_id
  join job_type t on t.type_id = l.type_id
  where t.type = any (next_due.types)
$$;
comment on function fencepost.next_due(text[]) is 'When the next delayed job or retry of these types is due; null if none is near.';
