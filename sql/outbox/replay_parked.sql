-- Parked events of a consumer (all, or these) are read again, before anything else. Returns how many.
-- Locks: those rows, until commit. Errors: JE002 when there is no such consumer.
create function fencepost.replay_parked(consumer text, event_ids bigint[] default null)
returns bigint
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_consumer consumer := find_consumer(replay_parked.consumer);
  v_count    bigint;
begin
  update parked_event p set again = true, given = null
  where p.consumer_id = v_consumer.consumer_id and not p.again and (replay_parked.event_ids is null or p.event_id = any (replay_parked.event_ids));
  get diagnostics v_count = row_count;
  return v_count;
end
$$;
comment on function fencepost.replay_parked(text, bigint[]) is 'Parked events of a consumer, all or these, are read again; returns how many. Raises JE002.';
