-- Everything up to and with the position `upto` is done: it does not come again. Returns true when that moved the consumer,
-- false when the position had been passed before, so that an acknowledgement may be repeated until another reader comes.
--
-- The lease ends when the last event that was read is acknowledged; until then it stays, so that a reader may do so
-- event by event.
-- Locks: the consumer, until commit; waits two seconds at most.
-- Errors: JE001 when the lease went to another reader, or another session holds the consumer; JE002; JE003, also outside
-- READ COMMITTED; JE004 when it has expired.
create function fencepost.ack_events(consumer text, upto text)
returns boolean
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_consumer consumer := find_consumer(ack_events.consumer);
  v_given    parsed_position;
  v_state    consumer_state;
  v_gone     bigint;
begin
  v_given := parse_position(ack_events.upto);
  v_state := leased_state(v_consumer, v_given.token);
  if v_given.parked_id is null and not is_after(v_given.place, v_state.position) then
    return false;
  end if;
  if v_consumer.expired_at is not null then
    perform raise_expired(v_consumer);
  end if;

  if v_given.parked_id is not null then
    delete from parked_event p where p.consumer_id = v_consumer.consumer_id and p.again and p.given = v_given.token and p.event_id <= v_given.parked_id;
    get diagnostics v_gone = row_count;
    if v_state.leased_until is not null and not exists (
      select from parked_event p where p.consumer_id = v_consumer.consumer_id and p.again and p.given = v_given.token) then
      v_state.leased_until := null;
      perform put_state(v_state);
    end if;
    return v_gone > 0;
  end if;

  if v_state.sent is null or is_after(v_given.place, v_state.sent) then
    perform raise_error('JE003', 'that position was not read yet', format('received upto = %L', ack_events.upto), 'Acknowledge positions that read_events() gave.');
  end if;
  if v_given.place = v_state.sent then
    v_state.position := v_state.after_sent;
    v_state.sent := null;
    v_state.after_sent := null;
    v_state.leased_until := null;
  else
    v_state.position := v_given.place;
  end if;
  perform put_state(v_state);
  return true;
end
$$;
comment on function fencepost.ack_events(text, text)
  is 'Everything up to and with this position is done. True when that moved the consumer, false when it had been passed. Raises JE001, JE002, JE003, JE004.';

-- Where a consumer stands, for whoever holds its lease: it is locked until commit.
-- Errors: JE001 when the lease went to another reader, or another session holds the consumer; JE002; JE003.
create function fencepost_private.leased_state(p_consumer fencepost_private.consumer, p_token bigint)
returns fencepost_private.consumer_state
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_state consumer_state := locked_state(p_consumer);
begin
  if p_token is distinct from v_state.token then
    perform raise_error('JE001', format('the lease of consumer %L was lost', p_consumer.name), format('received token %s; the newest is %s', coalesce(p_token::text, 'none'), v_state.token),
      'Another reader took over, or the consumer was moved: what was read is read again. Undo what can be undone, and read.');
  end if;
  return v_state;
end
$$;
comment on function fencepost_private.leased_state(fencepost_private.consumer, bigint) is 'Where a consumer stands, locked, for whoever holds its lease. Raises JE001, JE002, JE003.';
