-- To be called once after a *logical* restore (pg_dump, pg_restore), whose rows carry the transaction numbers of another
-- server: until then maintain() and whatever reads the log refuse with JE004. Physical copies, promotion and pg_upgrade
-- need nothing. Stop workers, relays and consumers first. A copy then delivers what the original delivers: where it must
-- not, pause webhooks and types and drop consumers before.
--
-- Ready jobs are renumbered in their order, as finely as the numbers of this server allow; watermarks are void; the
-- counters are counted anew. Consumers of the event log go on at the oldest event that they had not read: nothing is
-- missed, and of what is newer some may come a second time. Positions that clients of list_events() keep are of the
-- other server: those beyond the newest lead back to the beginning; let all begin there.
-- Returns what it did; no row when there is nothing to mend.
-- Locks: maintain()'s lock, then all places and registers, until commit. Errors: JE003 outside READ COMMITTED.
create function fencepost.after_restore()
returns table (step text, done bigint)
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
#variable_conflict use_column
declare
  v_xmin bigint;
  v_low  bigint;
  v_high bigint;
begin
  perform check_read_committed('after_restore()');
  perform pg_advisory_xact_lock(lock_housekeeping(), 1);
  lock table ready, delayed, parked, lease, suspended, dead_letter, depth_delta, depth_base, outcome_base, lane_hint, event_tick, consumer_state, origin in access exclusive mode;
  if not is_restored() then
    return;
  end if;
  v_xmin := pg_snapshot_xmin(pg_current_snapshot())::text::bigint;      -- all transactions below have ended

  -- the events that were not counted yet, while they have the numbers of the other server
  perform count_outcomes(coalesce(b.x, 0), coalesce(b.xip, '{}'), 9223372036854775807, '{}')
  from (select 1) as one left join outcome_base b on true;
  delete from outcome_base;
  insert into outcome_base (x, xip) select f.xmax, f.xip from in_flight() f;

  delete from lane_hint;
  step := 'watermarks voided';
  get diagnostics done = row_count;
  return next;

  -- onto the numbers from 3 to below v_xmin, in order
  select min(r.xid), max(r.xid) into v_low, v_high from ready r;
  update ready r set xid = 3 + floor((r.xid - v_low)::numeric * (v_xmin - 3) / (v_high - v_low + 1))::bigint;
  step := 'ready jobs renumbered';
  get diagnostics done = row_count;
  return next;

  step := 'consumers moved to the new numbers';
  done := renumber_consumers(v_xmin);
  return next;

  update event e set xid = v_xmin - 1 where e.xid >= v_xmin;
  step := 'events renumbered';
  get diagnostics done = row_count;
  return next;

  -- what is left of the deltas is what the bases have not counted
  with deltas as (
    delete from depth_delta returning type_id, enqueued
  ), bases as (
    delete from depth_base returning type_id, seq, enqueued
  ), ever as (
    select t.type_id,
           coalesce((select b.enqueued from bases b where b.type_id = t.type_id order by b.seq desc limit 1), 0)
             + coalesce((select sum(d.enqueued) from deltas d where d.type_id = t.type_id), 0) as enqueued
    from job_type t
  )
  insert into depth_base (type_id, x, xip, ready, delayed, parked, running, waiting, dead_letter, enqueued)
  select e.type_id, f.xmax, f.xip,
         count(*) filter (where p.place = 'ready'), count(*) filter (where p.place = 'delayed'), count(*) filter (where p.place = 'parked'),
         count(*) filter (where p.place = 'lease'), count(*) filter (where p.place = 'suspended'), count(*) filter (where p.place = 'dead_letter'),
         e.enqueued
  from ever e
  cross join in_flight() f
  left join lane l on l.type_id = e.type_id
  left join held_places() p on p.lane_id = l.lane_id
  group by e.type_id, e.enqueued, f.xmax, f.xip;
  step := 'counters counted anew';
  get diagnostics done = row_count;
  return next;

  step := 'webhooks that now deliver from here';
  select count(*) into done from webhook w join job_type t on t.type = webhook_type(w.name) where not t.paused;
  return next;

  delete from origin;
  insert into origin (written_by) values (0);
  update origin o set written_by = o.xmin::text::bigint;
  insert into event (xid, at, kind, actor, data)
  values (xid(), fencepost_private.now(), 'operator.restored', actor(), jsonb_build_object('lowest', v_low, 'highest', v_high, 'renumbered_below', v_xmin));
end
$$;
comment on function fencepost.after_restore() is 'Mends transaction numbers after a logical restore; nothing to do otherwise. Stop workers, relays and consumers first. Raises JE003.';
revoke execute on function fencepost.after_restore() from public;

-- Before events get the numbers of this server: consumers are put before the oldest event that they have not read,
-- in one batch that reaches to all that was restored. Returns how many.
create function fencepost_private.renumber_consumers(p_xmin bigint)
returns bigint
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v       record;
  v_bases bigint[] := '{}'::bigint[];
  v_count bigint := 0;
begin
  for v in
    select s.*, u.first_unread, least(p_xmin - 1, u.lowest) as px
    from (
      select n.*, (select t.last_id from event_tick t where t.x = (n.position).px and t.flight = (n.position).pflight limit 1) as base_id
      from consumer c cross join lateral newest_state(c.consumer_id) as n) as s
    cross join lateral (
      -- what this server wrote before we were called has low numbers, and ids above all that the consumer can have read
      select min(e.id) as first_unread, min(e.xid) as lowest
      from event e
      where e.id > greatest(s.base_id, (s.position).last_id)
         or exists (select from ranges_after(s.position) as r where e.xid >= r.from_xid and e.xid < r.below_xid and e.id > r.above_id and not e.xid = any (r.without))) as u
  loop
    insert into consumer_state (consumer_id, seq, position, token, at)
    values (v.consumer_id, v.seq + 1, case when v.first_unread is null then place_of_tick(p_xmin, 0) else row(v.px, 0, p_xmin, 0, v.first_unread - 1)::log_position end,
            v.token + 1, fencepost_private.now());
    v_bases := v_bases || coalesce(v.px, p_xmin);
    v_count := v_count + 1;
  end loop;
  delete from event_tick;
  insert into event_tick (x, flight, xip, at, last_id)
  select b.x, 0, '{}'::bigint[], '-infinity'::timestamptz, 0 from (select distinct x from unnest(v_bases) as x where x < p_xmin) as b
  union all
  select p_xmin, 0, '{}', fencepost_private.now(), s.last_value from event_id_seq s;
  return v_count;
end
$$;
comment on function fencepost_private.renumber_consumers(bigint) is 'Puts consumers before the oldest event that they have not read, in the numbers of this server. Returns how many.';
