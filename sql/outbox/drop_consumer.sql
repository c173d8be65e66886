-- Removes a consumer with its position and its parked events. Returns whether there was one.
-- Locks: the consumer, until commit; waits two seconds at most.
-- Errors: JE001 when another session holds it; JE003 outside READ COMMITTED; JE004 for the consumer of a webhook.
create function fencepost.drop_consumer(consumer text)
returns boolean
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
begin
  if exists (select from webhook w where webhook_consumer(w.name) = drop_consumer.consumer) then
    perform raise_error('JE004', format('consumer %L belongs to a webhook', drop_consumer.consumer), format('received consumer = %s', drop_consumer.consumer), 'Remove both with fencepost.drop_webhook().');
  end if;
  return remove_consumer(drop_consumer.consumer);
end
$$;
comment on function fencepost.drop_consumer(text) is 'Removes a consumer, its position and its parked events; false when there was none. Raises JE001, JE003, JE004.';

create function fencepost_private.remove_consumer(p_name text)
returns boolean
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_id int := (select c.consumer_id from consumer c where c.name = p_name);
begin
  if v_id is null then
    return false;
  end if;
  perform lock_one_consumer(v_id, p_name);
  delete from parked_event p where p.consumer_id = v_id;
  delete from consumer_state s where s.consumer_id = v_id;
  delete from consumer c where c.consumer_id = v_id;
  return found;
end
$$;
comment on function fencepost_private.remove_consumer(text) is 'Removes a consumer with all that is its own; false when there was none. Raises JE001, JE003.';
