-- Marks consumers that have had something to read for longer than their max_lag: the log is no longer kept for them. A step
-- of maintain(). Returns how many. Locks: the consumers that it marks, and their rows, tried: one that is being moved or
-- configured is looked at the next time.
create function fencepost_private.expire_consumers()
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_now     timestamptz := fencepost_private.now();
  v         record;
  v_since   timestamptz;
  v_expired bigint := 0;
begin
  for v in
    select c.consumer_id, c.name, c.max_lag from consumer c
    where c.expired_at is null and v_now - unread_since((newest_state(c.consumer_id)).position) > c.max_lag
    order by c.consumer_id
  loop
    continue when not pg_try_advisory_xact_lock(lock_consumer(), v.consumer_id);
    perform tick('0');       -- what was committed a moment ago counts from now
    v_since := unread_since((newest_state(v.consumer_id)).position);      -- it may have moved
    continue when (v_now - v_since > v.max_lag) is not true;
    perform from consumer c where c.consumer_id = v.consumer_id for no key update skip locked;
    continue when not found;
    update consumer c set expired_at = v_now where c.consumer_id = v.consumer_id;
    insert into event (xid, at, kind, data)
    values (xid(), v_now, 'consumer.expired', jsonb_build_object('consumer', v.name, 'unread_since', v_since, 'max_lag', v.max_lag));
    v_expired := v_expired + 1;
  end loop;
  return v_expired;
end
$$;
comment on function fencepost_private.expire_consumers() is 'A step of maintain(): marks consumers that fell behind their max_lag. Returns how many.';

-- Removes where consumers stood before. A step of maintain(). Each pass reads only what is new since the last one: what
-- was removed before is dead, and under a held snapshot would be walked for nothing. Returns how many rows. Locks: the rows
-- of the consumers that have moved, tried: one that is being configured comes the next time.
create function fencepost_private.prune_consumers()
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
  v        record;
  v_rows   bigint;
  v_pruned bigint := 0;
begin
  for v in
    select c.consumer_id, c.pruned_seq, (newest_state(c.consumer_id)).seq as newest from consumer c order by c.consumer_id
  loop
    continue when v.newest - 1 <= v.pruned_seq;
    perform from consumer c where c.consumer_id = v.consumer_id for no key update skip locked;
    continue when not found;
    delete from consumer_state s where s.consumer_id = v.consumer_id and s.seq > v.pruned_seq and s.seq < v.newest;
    get diagnostics v_rows = row_count;
    update consumer c set pruned_seq = v.newest - 1 where c.consumer_id = v.consumer_id;
    v_pruned := v_pruned + v_rows;
  end loop;
  return v_pruned;
end
$$;
comment on function fencepost_private.prune_consumers() is 'A step of maintain(): removes old places of consumers. Returns how many.';

-- Thins ticks: of those older than a minute one a second stays, or one in 1,000 events; of those older than an hour one in 5,000 events, and all
-- that a consumer stands on, or that comes next: see unread_since(). It removes those that lead to events that are gone. A step of maintain(), 20,000 ticks a pass, which goes on where
-- the last one ended (maintain_step.position, an x here); once an hour from the beginning. Returns how many.
--
-- A reader only moves forward: whoever stands behind all that is to go cannot come to stand on it. The others are kept
-- where they are, so that they take none of it as their place meanwhile. This is the last step, and they are free again
-- once it is done.
-- Locks: the consumers that stand before the last of these ticks, tried.
create function fencepost_private.prune_ticks(p_limit int default 20000)
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
  v_now    timestamptz := fencepost_private.now();
  v_from   bigint := coalesce((select m.position from maintain_step m where m.step = 'prune_ticks' and date_trunc('hour', m.last_at) = date_trunc('hour', v_now)), 0);
  v_first  bigint := coalesce((select min(p.first_id) from partitions('event') p), 0);
  v_spare  record;
  v_pruned bigint;
begin
  with looked as materialized (
    select t.ctid as place, t.x, t.flight, t.at, t.last_id, t.last_id / 5000 = lag(t.last_id / 5000) over w as is_near, (date_trunc('second', t.at), t.last_id / 1000) = (lag(date_trunc('second', t.at)) over w, lag(t.last_id / 1000) over w) as is_soon
    from (select i.ctid, i.* from event_tick i where i.x >= v_from order by i.x, i.flight limit p_limit) as t
    window w as (order by t.x, t.flight)
  ), spare as materialized (
    select l.place, l.x, l.flight from looked l
    where l.at < v_now - interval '1 hour' and (l.is_near or l.last_id < v_first) or l.at < v_now - interval '1 minute' and l.is_soon
  )
  select array(select s.place from spare s) as places, l.x as last_x, l.flight as last_flight,
         (select max(i.x) from looked i where i.at < v_now - interval '1 minute') as upto
    into v_spare
  from (select 1) as one left join (select s.x, s.flight from spare s order by s.x desc, s.flight desc limit 1) as l on true;
  update maintain_step m set position = v_spare.upto where m.step = 'prune_ticks' and m.position <> v_spare.upto;

  with stood_on as materialized (
    -- from where a consumer stands to the end of what its reader was given; without an end while somebody moves it
    select (s.position).px as from_x, (s.position).pflight as from_flight,
           case when l.free then coalesce((s.after_sent).tx, (s.after_sent).px, (s.position).tx, (s.position).px) else 9223372036854775807 end as upto_x,
           case when l.free then coalesce((s.after_sent).tflight, (s.after_sent).pflight, (s.position).tflight, (s.position).pflight) else 0 end as upto_flight
    from consumer c
    cross join lateral (select n.position from newest_state(c.consumer_id) as n offset 0) as b
    cross join lateral (
      select pg_try_advisory_xact_lock(lock_consumer(), c.consumer_id) as free
      where ((b.position).px, (b.position).pflight) <= (v_spare.last_x, v_spare.last_flight) offset 0) as l
    cross join lateral (select n.position, n.after_sent from newest_state(c.consumer_id) as n offset 0) as s
  ), comes_next as materialized (
    select n.x, n.flight
    from stood_on o
    cross join lateral (
      select t.x, t.flight from event_tick t where (t.x, t.flight) > (o.from_x, o.from_flight) order by t.x, t.flight limit 1) as n
  )
  delete from event_tick t
  where t.ctid = any (v_spare.places)
    and not exists (select from stood_on o where (t.x, t.flight) between (o.from_x, o.from_flight) and (o.upto_x, o.upto_flight))
    and not exists (select from comes_next n where (t.x, t.flight) = (n.x, n.flight));
  get diagnostics v_pruned = row_count;
  return v_pruned;
end
$$;
comment on function fencepost_private.prune_ticks(int) is 'A step of maintain(): thins old ticks. Returns how many.';

-- Whether a consumer has events of this range of ids still to read. One that has expired is not waited for.
create function fencepost_private.is_unread(p_first bigint, p_end bigint)
returns boolean
language sql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
  select exists (
    select
    from consumer c
    cross join lateral ranges_after((newest_state(c.consumer_id)).position) as r
    cross join lateral (
      select from event e
      where e.id >= p_first and e.id < p_end and e.xid >= r.from_xid and e.xid < r.below_xid and e.id > r.above_id and not e.xid = any (r.without)
      limit 1) as f
    where c.expired_at is null)
$$;
comment on function fencepost_private.is_unread(bigint, bigint) is 'Whether a consumer that has not expired has still to read events of this range.';
