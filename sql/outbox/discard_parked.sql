-- Parked events of a consumer (all, or these) are removed for good. Returns how many.
-- Locks: those rows, until commit. Errors: JE002 when there is no such consumer.
create function fencepost.discard_parked(consumer text, event_ids bigint[] default null)
returns bigint
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_consumer consumer := find_consumer(discard_parked.consumer);
  v_count    bigint;
begin
  delete from parked_event p
  where p.consumer_id = v_consumer.consumer_id and (discard_parked.event_ids is null or p.event_id = any (discard_parked.event_ids));
  get diagnostics v_count = row_count;
  return v_count;
end
$$;
comment on function fencepost.discard_parked(text, bigint[]) is 'Parked events of a consumer, all or these, are removed for good; returns how many. Raises JE002.';
