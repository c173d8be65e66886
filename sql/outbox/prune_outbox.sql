-- Marks consumers whose oldest unread event is older than their max_lag: the log is no longer kept for them. A step of
-- maintain(). Returns how many.
create function fencepost_private.expire_consumers()
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_now     timestamptz := fencepost_private.now();
  v_expired bigint;
begin
  with behind as (
    select c.consumer_id, c.name, s.since
    from consumer c
    cross join lateral (select unread_since((newest_state(c.consumer_id)).position) as since offset 0) as s
    where c.expired_at is null and c.max_lag is not null and s.since < v_now - c.max_lag
  ), marked as (
    update consumer c set expired_at = v_now from behind b where c.consumer_id = b.consumer_id returning c.consumer_id, c.name, c.max_lag, b.since
  )
  insert into event (xid, at, kind, data)
  select xid(), v_now, 'consumer.expired', jsonb_build_object('consumer', m.name, 'unread_since', m.since, 'max_lag', m.max_lag) from marked m order by m.consumer_id;
  get diagnostics v_expired = row_count;
  return v_expired;
end
$$;
comment on function fencepost_private.expire_consumers() is 'A step of maintain(): marks consumers that fell behind their max_lag. Returns how many.';

-- Removes where consumers stood before. A step of maintain(). Each pass reads only what is new since the last one: what
-- was removed before is dead, and under a held snapshot would be walked for nothing. Returns how many rows.
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
    delete from consumer_state s where s.consumer_id = v.consumer_id and s.seq > v.pruned_seq and s.seq < v.newest;
    get diagnostics v_rows = row_count;
    update consumer c set pruned_seq = v.newest - 1 where c.consumer_id = v.consumer_id;
    v_pruned := v_pruned + v_rows;
  end loop;
  return v_pruned;
end
$$;
comment on function fencepost_private.prune_consumers() is 'A step of maintain(): removes old places of consumers. Returns how many.';

-- Thins ticks that are older than an hour: of those within 5,000 events one stays, and all that a consumer stands on;
-- it removes those that lead to events that are gone. A step of maintain(), 20,000 ticks a pass, which goes on where
-- the last one ended (maintain_step.position, an x here); once an hour from the beginning. Returns how many.
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
  v_upto   bigint;
  v_pruned bigint;
begin
  with looked as materialized (
    select t.ctid as place, t.x, t.flight, t.at, t.last_id, t.last_id / 5000 = lag(t.last_id / 5000) over (order by t.x, t.flight) as is_near
    from (select i.ctid, i.* from event_tick i where i.x >= v_from order by i.x, i.flight limit p_limit) as t
  ), stood_on as materialized (
    select (s.position).px as x, (s.position).pflight as flight from consumer c cross join lateral newest_state(c.consumer_id) as s
    union
    select (s.position).tx, (s.position).tflight from consumer c cross join lateral newest_state(c.consumer_id) as s
    union
    select (s.sent).tx, (s.sent).tflight from consumer c cross join lateral newest_state(c.consumer_id) as s
    union
    select (s.sent).px, (s.sent).pflight from consumer c cross join lateral newest_state(c.consumer_id) as s
    union
    select (s.after_sent).px, (s.after_sent).pflight from consumer c cross join lateral newest_state(c.consumer_id) as s
  ), pruned as (
    delete from event_tick t
    where t.ctid = any (array(
      select l.place from looked l
      where l.at < v_now - interval '1 hour' and (l.is_near or l.last_id < v_first) and not exists (select from stood_on o where o.x = l.x and o.flight = l.flight)))
    returning t.x
  )
  select (select count(*) from pruned), (select max(l.x) from looked l where l.at < v_now - interval '1 hour') into v_pruned, v_upto;
  update maintain_step m set position = v_upto where m.step = 'prune_ticks' and m.position <> v_upto;
  return v_pruned;
end
$$;
comment on function fencepost_private.prune_ticks(int) is 'A step of maintain(): thins old ticks. Returns how many.';

-- Whether a consumer has events of this range of ids still to read. One that has expired is not waited for.
create function fencepost_private.is_unread(p_first bigint, p_end bigint)
returns boolean
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
  v record;
begin
  for v in
    select s.px, s.tx, coalesce(s.last_id, 0) as after, late_of(s) as late
    from (select (newest_state(c.consumer_id)).position as p from consumer c where c.expired_at is null) as c
    cross join lateral (select (c.p).*) as s
  loop
    if exists (select from event e where e.id >= p_first and e.id < p_end and e.xid >= v.px and (e.id > v.after or e.xid >= v.tx))
       or exists (select from unnest(v.late) as i(x) cross join lateral (
                    select from event e where e.xid = i.x and e.id >= p_first and e.id < p_end and e.id > v.after limit 1) as l) then
      return true;
    end if;
  end loop;
  return false;
end
$$;
comment on function fencepost_private.is_unread(bigint, bigint) is 'Whether a consumer that has not expired has still to read events of this range.';
