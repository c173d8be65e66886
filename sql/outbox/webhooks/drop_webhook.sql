-- Removes a webhook with its secrets and its consumer, and cancels the deliveries that wait; those on their way are told
-- to stop. Its dead letters and the history of its deliveries stay. Returns whether there was one.
-- Locks: the row of the webhook, its consumer, the places of its jobs, until commit. Errors: JE001 when a session reads its consumer.
create function fencepost.drop_webhook(name text)
returns boolean
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_id    int;
  v_lanes int[] := array(select l.lane_id from job_type t join lane l on l.type_id = t.type_id where t.type = webhook_type(drop_webhook.name));
begin
  select w.webhook_id into v_id from webhook w where w.name = drop_webhook.name for update;
  if not found then
    return false;
  end if;
  perform remove_consumer(webhook_consumer(drop_webhook.name));
  perform cancel_jobs(array(
    select r.id from ready r where r.lane_id = any (v_lanes)
    union all select d.id from delayed d where d.lane_id = any (v_lanes)
    union all select l.id from lease l where l.lane_id = any (v_lanes)), 'its webhook was removed', fencepost_private.now());
  delete from webhook_secret s where s.webhook_id = v_id;
  delete from webhook w where w.webhook_id = v_id;
  perform tell_webhook(drop_webhook.name, 'dropped');
  return true;
end
$$;
comment on function fencepost.drop_webhook(text) is 'Removes a webhook with its secrets and consumer, and cancels its deliveries; false when there was none. Raises JE001.';
