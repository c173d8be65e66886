-- Moves a consumer: to beginning (of what is kept), now, a past time such as 2020-01-31T12:00:00Z, or a position. Whoever
-- reads it loses the lease. One that had expired reads again. Returns the new position.
--
-- A time means: all that was committed before it is passed, up to about a second, or five thousand events, before.
-- Locks: the consumer, until commit; waits two seconds at most. Errors: JE001 when another session holds it; JE002; JE003;
-- JE004 after a logical restore, until after_restore() was called.
create function fencepost.seek_consumer(consumer text, to_position text)
returns text
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_consumer consumer := find_consumer(seek_consumer.consumer);
  v_position log_position := named_position(seek_consumer.to_position);
  v_state    consumer_state;
begin
  v_state := locked_state(v_consumer);
  v_state.position := v_position;
  v_state.sent := null;
  v_state.after_sent := null;
  v_state.token := v_state.token + 1;
  v_state.reader := null;
  v_state.leased_until := null;
  perform put_state(v_state);
  update consumer c set expired_at = null where c.consumer_id = v_consumer.consumer_id and c.expired_at is not null;
  return position_text(v_position);
end
$$;
comment on function fencepost.seek_consumer(text, text) is 'Moves a consumer to beginning, now, a time or a position; returns the new position. Raises JE001, JE002, JE003, JE004.';
