-- Makes an endpoint that gets events by HTTP: each event is one job of the type fencepost.webhook.NAME, which is tried,
-- dead-lettered and replayed like any other. Returns the secret that its messages are signed with: it is shown this once.
--
-- `filter`, `start` and `max_lag` are those of create_consumer(): its consumer is webhook:NAME. Without kinds it gets
-- all, but never events of jobs that deliver to webhooks. `secret` is whsec_ and base64 of 24 to 64 bytes; one is made
-- when it is left out.
--
-- A message is tried 12 times over about two days (waits of 5 s, 20 s, 80 s … 12 h), each 20 s at most, ten at once:
-- see configure_webhook(). Deliveries that have ended are kept for a day, so that they lengthen nothing: the whole log is kept
-- as long as any type keeps its finished jobs.
-- Locks: none that anything else waits for. Errors: JE003; JE004 when there is one of this name.
create function fencepost.create_webhook(name text, url text, filter jsonb default '{}', secret text default null, start text default 'now', max_lag interval default '7 days')
returns text
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_now    timestamptz := fencepost_private.now();
  v_secret text := webhook_secret_of(create_webhook.secret);
  v_type   text := webhook_type(create_webhook.name);
  v_id     int;
begin
  if create_webhook.name is null or create_webhook.name !~ '^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,99}$' then
    perform raise_error('JE003', 'a webhook needs a name such as billing', format('received name = %s', coalesce(quote_literal(left(create_webhook.name, 250)), 'null')),
      'Use 1 to 100 letters, digits and any of _ . : / - and start with a letter, digit or underscore.');
  end if;
  perform check_webhook_url(create_webhook.url);
  insert into webhook as w (name, url, created_at, updated_at) values (create_webhook.name, create_webhook.url, v_now, v_now)
  on conflict on constraint webhook_name_unique do nothing
  returning w.webhook_id into v_id;
  if v_id is null or not fencepost.create_consumer(webhook_consumer(create_webhook.name), create_webhook.filter, create_webhook.start, create_webhook.max_lag) then
    perform raise_error('JE004', format('webhook %L exists', create_webhook.name), format('received name = %s; it or its consumer %s is there', create_webhook.name, webhook_consumer(create_webhook.name)),
      'Change it with configure_webhook(), or drop_webhook() it first.');
  end if;
  update consumer c set deliveries = false where c.name = webhook_consumer(create_webhook.name);
  insert into webhook_secret (webhook_id, secret, created_at) values (v_id, v_secret, v_now);

  perform fencepost.configure_type(v_type, max_attempts => 12, timeout => '20 seconds', max_running => 10, keep_finished => '1 day',
    backoff_base => '5 seconds', backoff_factor => 4, backoff_cap => '12 hours', backoff_jitter => 0.2);
  perform ensure_lane(v_type, 5);
  perform set_paused(v_type, false, null);
  perform tell_webhook(create_webhook.name, 'created', jsonb_build_object('url', create_webhook.url, 'filter', create_webhook.filter));
  return v_secret;
end
$$;
comment on function fencepost.create_webhook(text, text, jsonb, text, text, interval)
  is 'Makes an endpoint that gets events by HTTP, and returns the secret of its signatures, this once. Raises JE003, JE004.';
revoke execute on function fencepost.create_webhook(text, text, jsonb, text, text, interval) from public;
