-- Makes an independent reader of the event log. Returns true when it is new, false when it exists with the same settings.
--
-- The filter is a JSON object; each key narrows what it gets:
--   kinds    ["job.completed", "run.*"]     exact, or all that begin so
--   types    ["email.send"]                 of jobs of these types only, so not of runs, workers and operators
--   tenant   "acme"
-- `start` is where it begins: now, beginning (of what is kept), a time that is past, or a position.
-- The log is kept for it until it has had something to read for longer than `max_lag`, at most 100 years; null is no limit.
-- One that falls farther behind is marked (event consumer.expired), and reads again after seek_consumer().
--
-- Locks: none that anything else waits for. Errors: JE003; JE004 when it exists with other settings.
create function fencepost.create_consumer(name text, filter jsonb default '{}', start text default 'now', max_lag interval default '7 days')
returns boolean
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_kinds  text[];
  v_types  text[];
  v_tenant text;
  v_old    consumer;
  v_id     int;
begin
  if create_consumer.name is null or create_consumer.name !~ '^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,199}$' then
    perform raise_error('JE003', 'a consumer needs a name such as billing', format('received name = %s', coalesce(quote_literal(left(create_consumer.name, 250)), 'null')),
      'Use 1 to 200 letters, digits and any of _ . : / - and start with a letter, digit or underscore.');
  end if;
  if create_consumer.max_lag <= '0' or create_consumer.max_lag > '100 years' then
    perform raise_error('JE003', 'max_lag must be longer than nothing, and at most 100 years', format('received max_lag = %s', create_consumer.max_lag),
      'Give an interval such as 7 days, or null for no limit.');
  end if;
  select p.kinds, p.types, p.tenant into v_kinds, v_types, v_tenant from parsed_consumer_filter(create_consumer.filter) as p;

  insert into consumer as c (name, kinds, types, tenant, max_lag, created_at, deliveries)
  values (create_consumer.name, v_kinds, v_types, v_tenant, create_consumer.max_lag, fencepost_private.now(), not starts_with(create_consumer.name, webhook_consumer('')))
  on conflict on constraint consumer_name_unique do nothing
  returning c.consumer_id into v_id;
  if v_id is not null then
    insert into consumer_state (consumer_id, seq, position, at) values (v_id, 1, named_position(create_consumer.start), fencepost_private.now());
    return true;
  end if;

  select c.* into v_old from consumer c where c.name = create_consumer.name;
  if (v_old.kinds, v_old.types, v_old.tenant, v_old.max_lag) is distinct from (v_kinds, v_types, v_tenant, create_consumer.max_lag) then
    perform raise_error('JE004', format('consumer %L exists with other settings', create_consumer.name),
      format('received filter = %s, max_lag = %s; it has kinds %s, types %s, tenant %s, max_lag %s', create_consumer.filter, coalesce(create_consumer.max_lag::text, 'null'),
        coalesce(to_json(v_old.kinds)::text, 'all'), coalesce(to_json(v_old.types)::text, 'all'), coalesce(v_old.tenant, 'all'), coalesce(v_old.max_lag::text, 'null')),
      'Take another name, or drop_consumer() it first: its position is then lost.');
  end if;
  return false;
end
$$;
comment on function fencepost.create_consumer(text, jsonb, text, interval)
  is 'Makes a reader of the event log that gets what its filter lets through, from now or the beginning; true when it is new. Raises JE003, JE004.';

-- Errors: JE003.
create function fencepost_private.parsed_consumer_filter(p_filter jsonb, out kinds text[], out types text[], out tenant text)
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
declare
  v_key text;
begin
  if p_filter is null or jsonb_typeof(p_filter) <> 'object' then
    perform raise_error('JE003', 'filter must be a JSON object', format('received %s', coalesce(left(p_filter::text, 100), 'null')), 'For example {"kinds": ["job.completed"]}; {} is everything.');
  end if;
  for v_key in select k from jsonb_object_keys(p_filter) as k where k not in ('kinds', 'types', 'tenant') loop
    perform raise_error('JE003', 'the filter of a consumer has no such key', format('received %s', quote_literal(v_key)),
      coalesce(did_you_mean(v_key, array['kinds', 'types', 'tenant']), 'Keys are kinds, types and tenant.'));
  end loop;
  kinds := words_of(p_filter -> 'kinds', 'kinds');
  types := words_of(p_filter -> 'types', 'types');
  if jsonb_typeof(p_filter -> 'tenant') not in ('string', 'null') then
    perform raise_error('JE003', 'tenant must be a text', format('received %s', p_filter -> 'tenant'), 'Leave it out to get the events of all tenants.');
  end if;
  tenant := p_filter ->> 'tenant';
  perform check_event_filter(kinds, types);
end
$$;
comment on function fencepost_private.parsed_consumer_filter(jsonb) is 'The filter of a consumer, checked. Raises JE003.';

-- A JSON array of texts, sorted; null for none. Errors: JE003.
create function fencepost_private.words_of(p_value jsonb, p_name text)
returns text[]
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
begin
  if p_value is null or p_value = 'null' then
    return null;
  end if;
  if jsonb_typeof(p_value) <> 'array' or p_value = '[]' or jsonb_path_exists(p_value, '$[*] ? (@.type() != "string")') then
    perform raise_error('JE003', format('%s must be a list of texts', p_name), format('received %s', left(p_value::text, 100)), 'Give an array with at least one text, or leave it out.');
  end if;
  return array(select distinct w from jsonb_array_elements_text(p_value) as w order by w);
end
$$;
comment on function fencepost_private.words_of(jsonb, text) is 'A JSON array of texts as an array, sorted; null for none. Raises JE003.';

-- The consumer of a name. Errors: JE002.
create function fencepost_private.find_consumer(p_name text)
returns fencepost_private.consumer
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
declare
  v_consumer consumer;
begin
  select c.* into v_consumer from consumer c where c.name = p_name;
  if not found then
    perform raise_no_consumer(p_name);
  end if;
  return v_consumer;
end
$$;
comment on function fencepost_private.find_consumer(text) is 'The consumer of a name. Raises JE002.';

-- Errors: JE002, always.
create function fencepost_private.raise_no_consumer(p_name text)
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
begin
  perform raise_error('JE002', format('consumer %s does not exist', coalesce(quote_literal(left(p_name, 250)), 'null')), format('received consumer = %s', coalesce(left(p_name, 250), 'null')),
    coalesce(did_you_mean(p_name, array(select c.name from consumer c)), 'Make it with fencepost.create_consumer().'));
end
$$;
comment on function fencepost_private.raise_no_consumer(text) is 'Raises JE002 for the name of a consumer.';

-- Where a consumer stands now.
create function fencepost_private.newest_state(p_consumer_id int)
returns fencepost_private.consumer_state
language sql
volatile
security definer
set search_path = fencepost_private, pg_temp
set enable_seqscan = off
as $$
  select s from consumer_state s where s.consumer_id = p_consumer_id order by s.seq desc limit 1
$$;
comment on function fencepost_private.newest_state(int) is 'Where a consumer stands.';

-- Writes where a consumer stands from now on; the caller has locked the consumer.
create function fencepost_private.put_state(p_state fencepost_private.consumer_state)
returns void
language sql
volatile
set search_path = fencepost_private, pg_temp
as $$
  insert into consumer_state
  select p_state.consumer_id, p_state.seq + 1, p_state.position, p_state.sent, p_state.after_sent, p_state.token, p_state.reader, p_state.leased_until, fencepost_private.now()
$$;
comment on function fencepost_private.put_state(fencepost_private.consumer_state) is 'Writes where a consumer stands from now on.';

-- One session at a time moves a consumer, seeing where it stands now. Errors: JE001 when another one holds it for longer
-- than two seconds; JE003 outside READ COMMITTED.
create function fencepost_private.lock_one_consumer(p_consumer_id int, p_name text)
returns void
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
set lock_timeout = '2s'
as $$
begin
  perform check_read_committed('what moves a consumer');
  perform pg_advisory_xact_lock(lock_consumer(), p_consumer_id);
exception
  when lock_not_available then
    perform raise_error('JE001', format('another session is reading consumer %L in a transaction', p_name), format('received a call from backend %s', pg_backend_pid()),
      'Wait for it to commit, then read again.');
end
$$;
comment on function fencepost_private.lock_one_consumer(int, text) is 'Locks a consumer until commit; waits two seconds at most. Raises JE001, JE003.';

-- Where a consumer stands, for whoever moves it: it is locked until commit.
-- Errors: JE001 and JE003 as lock_one_consumer(); JE002 when it was dropped since it was found.
create function fencepost_private.locked_state(p_consumer fencepost_private.consumer)
returns fencepost_private.consumer_state
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_state consumer_state;
begin
  perform lock_one_consumer(p_consumer.consumer_id, p_consumer.name);
  v_state := newest_state(p_consumer.consumer_id);
  if v_state.consumer_id is null then
    perform raise_no_consumer(p_consumer.name);
  end if;
  return v_state;
end
$$;
comment on function fencepost_private.locked_state(fencepost_private.consumer) is 'Where a consumer stands, locked until commit. Raises JE001, JE002, JE003.';
