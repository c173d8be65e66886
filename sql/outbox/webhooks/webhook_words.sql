-- What the functions of webhooks share: names, checks, secrets.

create function fencepost_private.webhook_consumer(p_name text) returns text
language sql immutable
return 'webhook:' || p_name;
comment on function fencepost_private.webhook_consumer(text) is 'The name of the consumer of a webhook.';

create function fencepost_private.webhook_type(p_name text) returns text
language sql immutable
return 'fencepost.webhook.' || p_name;
comment on function fencepost_private.webhook_type(text) is 'The type of the jobs that deliver to a webhook.';

-- Errors: JE002.
create function fencepost_private.find_webhook(p_name text)
returns fencepost_private.webhook
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_webhook webhook;
begin
  select w.* into v_webhook from webhook w where w.name = p_name for no key update;
  if not found then
    perform raise_error('JE002', format('webhook %s does not exist', coalesce(quote_literal(left(p_name, 250)), 'null')), format('received name = %s', coalesce(left(p_name, 250), 'null')),
      coalesce(did_you_mean(p_name, array(select w.name from webhook w)), 'Make it with fencepost.create_webhook().'));
  end if;
  return v_webhook;
end
$$;
comment on function fencepost_private.find_webhook(text) is 'The webhook of a name, its row locked. Raises JE002.';

-- A host whose last label is a number is an IPv4 address to every URL parser, and in brackets stands an IPv6 one: what is
-- none can never be called. Other spellings of IPv4 than four numbers are refused with it.
create function fencepost_private.is_webhook_host(p_host text) returns boolean
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
begin
  if p_host like '[%' then
    return family(trim(p_host, '[]')::inet) = 6;
  end if;
  return p_host !~* '(^|\.)([0-9]+|0x[0-9a-f]*)\.?$' or p_host ~ '^((25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(\.|$)){4}\.?$';
exception
  when invalid_text_representation then
    return false;
end
$$;
comment on function fencepost_private.is_webhook_host(text) is 'True for a host of a URL that can be one: an address that looks like one is one.';

-- ASCII, without credentials (lists show URLs), fragment or backslash, so that every parser reads the same host in it.
-- Where the host leads is checked when it is connected to. Errors: JE003.
create function fencepost_private.check_webhook_url(p_url text)
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
begin
  if p_url is null or length(p_url) > 2000
     or p_url !~* '^https?://([a-z0-9_-]+(\.[a-z0-9_-]+)*\.?|\[[0-9a-f:.]+\])(:[0-9]{1,5})?([/?][!-~]*)?$' or p_url ~ '[\\#]'
     or substring(p_url from '^[^/]+//[^/?]*:([0-9]+)([/?]|$)')::int not between 1 and 65535
     or not is_webhook_host(substring(p_url from '^[^/]+//(\[[^]]*\]|[^/?:]*)')) then
    perform raise_error('JE003', 'a webhook needs a URL such as https://example.com/hooks', format('received url = %s', coalesce(quote_literal(left(p_url, 100)), 'null')),
      'Give https:// and a host, at most 2000 characters of ASCII, without user, password and fragment.');
  end if;
end
$$;
comment on function fencepost_private.check_webhook_url(text) is 'Raises JE003 for what is no URL of an endpoint.';

-- The secret that was given, checked; a new one of 32 random bytes when there is none. Errors: JE003, without telling it.
create function fencepost_private.webhook_secret_of(p_secret text)
returns text
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_bytes int;
begin
  if p_secret is null then
    return 'whsec_' || encode(sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())), 'base64');
  end if;
  begin
    v_bytes := case when p_secret ~ '^whsec_[A-Za-z0-9+/]+={0,2}$' then length(decode(substr(p_secret, 7), 'base64')) end;
  exception
    when invalid_parameter_value then
      v_bytes := null;
  end;
  if v_bytes is null or v_bytes not between 24 and 64 then
    perform raise_error('JE003', 'a secret is whsec_ and the base64 of 24 to 64 random bytes', format('received a text of %s characters', length(p_secret)), 'Leave it out to have one made.');
  end if;
  return p_secret;
end
$$;
comment on function fencepost_private.webhook_secret_of(text) is 'A secret, checked, or a new one. Raises JE003.';

create function fencepost_private.tell_webhook(p_name text, p_change text, p_data jsonb default '{}')
returns void
language sql
volatile
set search_path = fencepost_private, pg_temp
as $$
  insert into event (xid, at, tenant, kind, actor, data)
  values (xid(), fencepost_private.now(), current_tenant(), 'operator.webhook_changed', actor(), jsonb_build_object('webhook', p_name, 'change', p_change) || p_data)
$$;
comment on function fencepost_private.tell_webhook(text, text, jsonb) is 'Writes the event of a change of a webhook.';

create function fencepost_private.utc_text(p_time timestamptz) returns text
language sql stable
return to_char(p_time at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');
comment on function fencepost_private.utc_text(timestamptz) is 'A time as ISO 8601 in UTC.';
