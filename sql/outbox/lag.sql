-- What comes after a place in the log, as ranges of transactions: in each all events above an id, but for those of the
-- transactions in `without`, which have a range of their own. All that asks what a consumer has not read asks this.
create function fencepost_private.ranges_after(p_position fencepost_private.log_position)
returns table (from_xid bigint, below_xid bigint, above_id bigint, without bigint[])
language sql
stable
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
  with ticks as materialized (
    select coalesce(b.xip, '{}') as base_xip, coalesce(n.xip, b.xip, '{}') as next_xip, coalesce((p_position).tx, (p_position).px) as upto
    from (select 1) as one
    left join lateral (select t.xip from event_tick t where t.x = (p_position).px and t.flight = (p_position).pflight limit 1) as b on true
    left join lateral (select t.xip from event_tick t where t.x = (p_position).tx and t.flight = (p_position).tflight limit 1) as n on true
  )
  select t.upto, 9223372036854775807, 0::bigint, '{}'::bigint[] from ticks t          -- after the batch
  union all
  select i.x, i.x + 1, 0, '{}' from ticks t cross join unnest(t.next_xip) as i(x)       -- in flight at its end
  union all
  select (p_position).px, t.upto, coalesce((p_position).last_id, 0), t.next_xip from ticks t where t.upto > (p_position).px
  union all
  select i.x, i.x + 1, coalesce((p_position).last_id, 0), '{}' from ticks t cross join unnest(t.base_xip) as i(x) where not i.x = any (t.next_xip)
$$;
comment on function fencepost_private.ranges_after(fencepost_private.log_position) is 'What comes after a place in the log, as ranges of transactions and ids.';

-- Since when a consumer has something to read, of all kinds: when the oldest event after its place could first be read.
-- An event may have happened long before, in a transaction that committed late; the first tick after the place saw
-- something that the place had not. So an event was not to be read before either, and nobody is behind before it is.
-- Until there is such a tick, the tick of the place is the latest time that is known. prune_ticks() keeps both.
create function fencepost_private.unread_since(p_position fencepost_private.log_position)
returns timestamptz
language sql
stable
security definer
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
  select greatest(u.happened_at, coalesce(
           (select t.at from event_tick t where (t.x, t.flight) > ((p_position).px, (p_position).pflight) order by t.x, t.flight limit 1),
           (select t.at from event_tick t where t.x = (p_position).px and t.flight = (p_position).pflight limit 1)))
  from (
    select min(f.at) as happened_at
    from ranges_after(p_position) as r
    cross join lateral (
      select e.at from event e
      where e.xid >= r.from_xid and e.xid < r.below_xid and e.id > r.above_id and not e.xid = any (r.without)
      order by e.xid, e.id limit 1) as f) as u
  where u.happened_at is not null
$$;
comment on function fencepost_private.unread_since(fencepost_private.log_position) is 'Since when something after a place can be read; null when there is nothing.';

-- How many events that is, counted to a cap.
create function fencepost_private.unread_count(p_position fencepost_private.log_position, p_cap int default 100000)
returns bigint
language sql
stable
security definer
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
  select count(*)
  from (
    select
    from ranges_after(p_position) as r
    cross join lateral (
      select from event e
      where e.xid >= r.from_xid and e.xid < r.below_xid and e.id > r.above_id and not e.xid = any (r.without)
      limit p_cap) as f
    limit p_cap) as c
$$;
comment on function fencepost_private.unread_count(fencepost_private.log_position, int) is 'How many events come after a place, counted to a cap.';
