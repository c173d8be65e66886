-- The next events of a consumer, in commit order: at most `max` (1 to 10,000), oldest first. Nothing moves until
-- ack_events(): reading again gives the same events again. Events whose transaction has not committed are not there;
-- they come, once, after their commit, however late that is, and hold up nobody.
--
-- Reading takes a lease for `reader` (default: this session; behind a pooler name one) when there is something to read: until it ends or all is
-- acknowledged another reader gets nothing. Within one transaction with the work and ack_events() the consumer is
-- exactly-once. `position` names the place behind its event and carries the token of the lease.
--
-- No row means that there is nothing to read, or that another reader has the lease. Where a narrow filter holds back more
-- than a second of looking passes, it may also mean that the look goes on from there with the next call: `lag_events` of
-- the view `consumers` is 0 only at the end.
--
-- Parked events that are to be delivered again come first, by themselves.
-- Locks: the consumer, tried: none while another session reads it.
-- Errors: JE002; JE003, also outside READ COMMITTED; JE004 when it fell behind max_lag, or after a logical restore until
-- after_restore() was called.
create function fencepost.read_events(consumer text, max int default 100, reader text default null, lease interval default '30 seconds')
returns table ("position" text, id bigint, kind text, at timestamptz, tenant text, type text, job_id bigint, run_id bigint, task_id bigint, workflow text,
               attempt int, outcome text, worker text, ready_at timestamptz, started_at timestamptz, actor text, data jsonb)
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
#variable_conflict use_column
declare
  v_now      timestamptz := fencepost_private.now();
  v_reader   text := coalesce(read_events.reader, 'session ' || pg_backend_pid());
  v_consumer consumer := find_consumer(read_events.consumer);
  v_state    consumer_state;
  v_wanted   wanted_events;
  v_read     unread_events;
begin
  perform check_read(read_events.max, read_events.lease);
  perform check_read_committed('read_events()');
  perform check_not_restored('read_events()');
  if v_consumer.expired_at is not null then
    perform raise_expired(v_consumer);
  end if;
  if is_held_by_another(newest_state(v_consumer.consumer_id), v_reader, v_now) or not pg_try_advisory_xact_lock(lock_consumer(), v_consumer.consumer_id) then
    return;
  end if;
  v_state := newest_state(v_consumer.consumer_id);
  if v_state.consumer_id is null then
    perform raise_no_consumer(v_consumer.name);      -- it was dropped a moment ago
  end if;
  if is_held_by_another(v_state, v_reader, v_now) then
    return;
  end if;

  if v_state.leased_until is null or v_state.leased_until <= v_now or v_state.reader is distinct from v_reader then
    v_state.token := v_state.token + 1;
    v_state.sent := null;
    v_state.after_sent := null;
  end if;
  v_state.reader := v_reader;
  v_state.leased_until := v_now + read_events.lease;

  if exists (select from parked_event p where p.consumer_id = v_consumer.consumer_id and p.again) then
    perform put_state(v_state);
    return query
      with given as (
        update parked_event p set given = v_state.token
        where p.consumer_id = v_consumer.consumer_id and p.event_id = any (array(
          select o.event_id from parked_event o where o.consumer_id = v_consumer.consumer_id and o.again order by o.event_id limit read_events.max for update skip locked))
        returning p.event_id, p.event
      )
      select 'p' || g.event_id || '~' || v_state.token, (e.e).*
      from given g
      cross join lateral (select jsonb_populate_record(null::told_event, g.event) as e) as e
      order by g.event_id;
    return;
  end if;

  perform tick('100 milliseconds');
  v_state.position := kept_position(v_state.position);
  v_wanted := row(v_consumer.kinds, v_consumer.types, v_consumer.tenant, v_consumer.deliveries);
  v_read := unread(v_state.position, read_events.max, v_wanted);
  for v_try in 1..1000 loop
    -- farther when all of that was for others, for about a second; or committed a moment ago
    exit when cardinality(v_read.events) > 0 or v_try > 4 and fencepost_private.now() > v_now + interval '1 second';
    exit when v_read.reached = newest_position() and (v_try > 4 or tick('0') = 0);
    v_read := unread(v_read.reached, read_events.max, v_wanted);
  end loop;
  if cardinality(v_read.events) > 0 then
    v_state.sent := v_read.sent;
    v_state.after_sent := v_read.reached;
    perform put_state(v_state);
    return query select * from told(v_read, v_state.token);
  elsif is_after(v_read.reached, v_state.position) and (v_state.at < v_now - interval '1 second' or v_state.at > v_now or v_read.reached <> newest_position()) then
    -- what was passed is for others: we need not look at it again, nor must it be kept for us
    v_state.position := v_read.reached;
    v_state.sent := null;
    v_state.after_sent := null;
    v_state.leased_until := null;
    perform put_state(v_state);
  end if;
end
$$;
comment on function fencepost.read_events(text, int, text, interval)
  is 'The next events of a consumer, in commit order, under a lease; they come again until ack_events(). No row when there is nothing new or another reader has the lease. Raises JE002, JE003, JE004.';

create function fencepost_private.is_held_by_another(p_state fencepost_private.consumer_state, p_reader text, p_now timestamptz)
returns boolean
language sql
immutable
return (p_state).leased_until is not null and (p_state).leased_until > p_now and (p_state).reader is distinct from p_reader;
comment on function fencepost_private.is_held_by_another(fencepost_private.consumer_state, text, timestamptz) is 'Whether another reader has the lease of a consumer.';

-- Errors: JE003.
create function fencepost_private.check_read(p_max int, p_lease interval default '30 seconds')
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
begin
  if p_max is null or p_max not between 1 and 10000 then
    perform raise_error('JE003', 'max must be between 1 and 10000', format('received max = %s', coalesce(p_max::text, 'null')), 'Read the rest with the next call.');
  end if;
  if p_lease is null or p_lease not between interval '1 second' and interval '1 day' then
    perform raise_error('JE003', 'lease must be between 1 second and 1 day', format('received lease = %s', coalesce(p_lease::text, 'null')), 'Give the time that one batch may take.');
  end if;
end
$$;
comment on function fencepost_private.check_read(int, interval) is 'Raises JE003 for limits that cannot be.';

-- Errors: JE004, always.
create function fencepost_private.raise_expired(p_consumer fencepost_private.consumer)
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
begin
  perform raise_error('JE004', format('consumer %L fell behind its max_lag of %s: events may be missing', p_consumer.name, p_consumer.max_lag), format('it expired at %s', p_consumer.expired_at),
    'Decide what the gap means for you, then go on with fencepost.seek_consumer(): beginning gives all that is kept.');
end
$$;
comment on function fencepost_private.raise_expired(fencepost_private.consumer) is 'Raises JE004 for a consumer that has expired.';
