-- Changes a webhook; null leaves a setting as it is.
--   url, filter    where messages go; which events (see create_consumer). Deliveries that wait go to the new URL
--   paused         true: nothing is sent; events wait in the log, as long as max_lag of its consumer allows
--   reason         why it is paused
--   max_attempts, timeout, max_running, backoff_base, backoff_cap
--                  those of its type of job; timeout from 1 second to 5 minutes, max_running from 1 to 1000
-- What else is a setting of a type is set with configure_type('fencepost.webhook.NAME', …).
-- Locks: the rows of the webhook and its type. Errors: JE002; JE003, naming the setting.
create function fencepost.configure_webhook(
  name text, url text default null, filter jsonb default null, paused boolean default null, reason text default null,
  max_attempts int default null, timeout interval default null, max_running int default null,
  backoff_base interval default null, backoff_cap interval default null)
returns void
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_webhook webhook := find_webhook(configure_webhook.name);
  v_type    text := webhook_type(v_webhook.name);
  v_filter  record;
begin
  if configure_webhook.timeout not between interval '1 second' and interval '5 minutes' then
    perform raise_error('JE003', 'timeout must be from 1 second to 5 minutes', format('received timeout = %s', configure_webhook.timeout), 'An endpoint that needs longer should answer first and work then.');
  end if;
  if configure_webhook.max_running not between 1 and 1000 then
    perform raise_error('JE003', 'max_running must be from 1 to 1000', format('received max_running = %s', configure_webhook.max_running), 'It says how many messages are on their way to the endpoint at once.');
  end if;

  if configure_webhook.url is not null then
    perform check_webhook_url(configure_webhook.url);
    update webhook w set url = configure_webhook.url, updated_at = fencepost_private.now() where w.webhook_id = v_webhook.webhook_id and w.url <> configure_webhook.url;
  end if;
  if configure_webhook.filter is not null then
    select p.kinds, p.types, p.tenant into v_filter from parsed_consumer_filter(configure_webhook.filter) as p;
    update consumer c set kinds = v_filter.kinds, types = v_filter.types, tenant = v_filter.tenant where c.name = webhook_consumer(v_webhook.name);
    update webhook w set updated_at = fencepost_private.now() where w.webhook_id = v_webhook.webhook_id;
  end if;
  if configure_webhook.url <> v_webhook.url or configure_webhook.filter is not null then
    perform tell_webhook(v_webhook.name, 'configured', jsonb_strip_nulls(jsonb_build_object('url', nullif(configure_webhook.url, v_webhook.url), 'filter', configure_webhook.filter)));
  end if;

  perform fencepost.configure_type(v_type, max_attempts => configure_webhook.max_attempts, timeout => configure_webhook.timeout, max_running => configure_webhook.max_running,
    backoff_base => configure_webhook.backoff_base, backoff_cap => configure_webhook.backoff_cap);
  if configure_webhook.paused is not null then
    perform set_paused(v_type, configure_webhook.paused, configure_webhook.reason);
  end if;
end
$$;
comment on function fencepost.configure_webhook(text, text, jsonb, boolean, text, int, interval, int, interval, interval)
  is 'Changes the URL, filter or settings of a webhook, pauses it or lets it go on; null leaves a setting as it is. Raises JE002, JE003.';
revoke execute on function fencepost.configure_webhook(text, text, jsonb, boolean, text, int, interval, int, interval, interval) from public;
