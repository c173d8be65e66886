-- Removes a consumer with its position and its parked events. Returns whether there was one.
-- Locks: the consumer, until commit; waits two seconds at most. Errors: JE001 when another session holds it.
create function fencepost.drop_consumer(consumer text)
returns boolean
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_id int := (select c.consumer_id from consumer c where c.name = drop_consumer.consumer);
begin
  if v_id is null then
    return false;
  end if;
  perform lock_one_consumer(v_id, drop_consumer.consumer);
  delete from parked_event p where p.consumer_id = v_id;
  delete from consumer_state s where s.consumer_id = v_id;
  delete from consumer c where c.consumer_id = v_id;
  return found;
end
$$;
comment on function fencepost.drop_consumer(text) is 'Removes a consumer, its position and its parked events; false when there was none. Raises JE001.';
