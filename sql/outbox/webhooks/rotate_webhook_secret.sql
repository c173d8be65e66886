-- Gives a webhook a new secret and returns it: it is shown this once. Messages carry signatures by the new and by all
-- older ones until `keep_old` has passed, so that the receiver may change over in between; 0 ends the old ones at once.
-- Locks: the row of the webhook. Errors: JE002; JE003; JE004 when it is one that it has already.
create function fencepost.rotate_webhook_secret(name text, keep_old interval default '1 day', secret text default null)
returns text
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_now     timestamptz := fencepost_private.now();
  v_webhook webhook := find_webhook(rotate_webhook_secret.name);
  v_secret  text := webhook_secret_of(rotate_webhook_secret.secret);
begin
  if rotate_webhook_secret.keep_old is null or rotate_webhook_secret.keep_old not between interval '0' and interval '1 year' then
    perform raise_error('JE003', 'keep_old must be from 0 to 1 year', format('received keep_old = %s', coalesce(rotate_webhook_secret.keep_old::text, 'null')), 'Give the time that the receiver needs to change over.');
  end if;
  if exists (select from webhook_secret s where s.webhook_id = v_webhook.webhook_id and s.secret = v_secret) then
    perform raise_error('JE004', format('webhook %L has that secret already', v_webhook.name), 'received the same secret again', 'Leave it out to have one made.');
  end if;
  delete from webhook_secret s where s.webhook_id = v_webhook.webhook_id and s.expires_at <= v_now;
  update webhook_secret s set expires_at = least(s.expires_at, v_now + rotate_webhook_secret.keep_old) where s.webhook_id = v_webhook.webhook_id;
  insert into webhook_secret (webhook_id, secret, created_at) values (v_webhook.webhook_id, v_secret, v_now);
  update webhook w set updated_at = v_now where w.webhook_id = v_webhook.webhook_id;
  perform tell_webhook(v_webhook.name, 'secret_rotated', jsonb_build_object('keep_old', rotate_webhook_secret.keep_old));
  return v_secret;
end
$$;
comment on function fencepost.rotate_webhook_secret(text, interval, text)
  is 'Gives a webhook a new secret and returns it, this once; old ones sign too until keep_old has passed. Raises JE002, JE003, JE004.';
revoke execute on function fencepost.rotate_webhook_secret(text, interval, text) from public;
