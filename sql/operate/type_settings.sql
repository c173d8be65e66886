-- What declare_type and configure_type share. A setting has the operator's value if he set one (job_type.overridden),
-- else the one that code declared (type_declaration), else the default of its column.

-- The settings, and what each expects: the words of the errors.
create function fencepost_private.type_settings()
returns table (name text, expects text)
language sql
immutable
set search_path = fencepost_private, pg_temp
as $$
  values ('max_running',       'a whole number of jobs up to 2147483647; 0 for no limit'),
         ('max_attempts',      'a whole number from 1 to 1000000'),
         ('timeout',           'an interval such as "30 seconds", at most 100 years; 0 for no limit'),
         ('backoff_base',      'an interval such as "2 seconds", at most 100 years'),
         ('backoff_factor',    'a number from 1 to 100'),
         ('backoff_cap',       'an interval such as "1 hour", at most 100 years'),
         ('backoff_jitter',    'a number from 0 to 1: the share of the wait that is drawn at random'),
         ('max_pending',       'a whole number of jobs up to 2147483647; 0 for no limit'),
         ('max_payload_bytes', 'a whole number of bytes from 2 to 268435456'),
         ('payload_check',     'an SQL/JSON path predicate such as $.to like_regex "@"; an empty text for none'),
         ('accept',            'true or false'),
         ('publish_enqueued',  'true or false'),
         ('publish_started',   'true or false'),
         ('dead_letter_alert', 'a whole number of jobs from 1 to 2147483647'),
         ('keep_finished',     'an interval such as "7 days", at most 100 years')
$$;
comment on function fencepost_private.type_settings() is 'The names of the settings of a type, and what each expects.';

create function fencepost_private.raise_unknown_setting(p_name text)
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
declare
  v_names text[] := array(select s.name from type_settings() s);
begin
  perform raise_error('JE003', format('there is no setting %s', coalesce(quote_literal(p_name), 'null')), format('received %s', coalesce(quote_literal(p_name), 'null')),
    coalesce(did_you_mean(p_name, v_names), '') || 'The settings are ' || array_to_string(v_names, ', ') || '.');
end
$$;
comment on function fencepost_private.raise_unknown_setting(text) is 'Raises JE003 for a name that is no setting of a type.';

-- Settings as they will be stored: of the right kind, and null for "no limit". JSON nulls are left out.
-- Errors: JE003, naming the setting.
create function fencepost_private.checked_settings(p_settings jsonb)
returns jsonb
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
declare
  v_given   record;
  v_type    job_type;
  v_checked jsonb := '{}'::jsonb;
  v_bad     boolean;
begin
  if jsonb_typeof(p_settings) is distinct from 'object' then
    perform raise_error('JE003', 'settings must be a JSON object', format('received %s', coalesce(left(p_settings::text, 200), 'null')), 'For example {"max_attempts": 3}.');
  end if;
  for v_given in
    select g.key, g.value, s.expects, s.name from jsonb_each(p_settings) g left join type_settings() s on s.name = g.key
  loop
    if v_given.name is null then
      perform raise_unknown_setting(v_given.key);
    end if;
    continue when v_given.value = 'null';
    begin
      v_type := jsonb_populate_record(null::job_type, jsonb_build_object(v_given.key, nullif(v_given.value, '""')));
      v_bad := case v_given.key
        when 'timeout'       then v_type.timeout not between '0' and '100 years'
        when 'backoff_base'  then v_type.backoff_base not between '0' and '100 years'
        when 'backoff_cap'   then v_type.backoff_cap not between '0' and '100 years'
        when 'keep_finished' then v_type.keep_finished not between '0' and '100 years'
        else false
      end or v_given.value = '""' and v_given.key <> 'payload_check';
    exception
      when data_exception or syntax_error then
        v_bad := true;
    end;
    if v_bad then
      perform raise_error('JE003', format('%s must be %s', v_given.key, v_given.expects),
        format('received %s = %s', v_given.key, clipped(v_given.value #>> '{}', 400)), 'Nothing was changed. Leave a setting out if it need not be set.');
    end if;
    v_type.max_running := nullif(v_type.max_running, 0);
    v_type.max_pending := nullif(v_type.max_pending, 0);
    v_type.timeout := nullif(v_type.timeout, '0');
    v_checked := v_checked || jsonb_build_object(v_given.key, to_jsonb(v_type) -> v_given.key);
  end loop;
  return v_checked;
end
$$;
comment on function fencepost_private.checked_settings(jsonb) is 'Settings of the right kind, null for no limit. Raises JE003 naming the setting.';

-- The settings of a type that has neither declaration nor operator, from the defaults of its columns.
create function fencepost_private.default_settings()
returns jsonb
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
declare
  v_column   record;
  v_value    jsonb;
  v_defaults jsonb := '{}'::jsonb;
begin
  for v_column in
    select a.attname as name, pg_get_expr(d.adbin, d.adrelid) as expression
    from type_settings() s
    join pg_attribute a on a.attrelid = 'fencepost_private.job_type'::regclass and a.attname = s.name
    left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
  loop
    execute 'select to_jsonb(' || coalesce(v_column.expression, 'null::text') || ')' into v_value;
    v_defaults := v_defaults || jsonb_build_object(v_column.name, v_value);
  end loop;
  return v_defaults;
end
$$;
comment on function fencepost_private.default_settings() is 'The default of every setting of a type.';

-- The type of this name, made if need be, locked against other changes of its settings. Errors: JE003 (name).
create function fencepost_private.lock_type_row(p_type text)
returns fencepost_private.job_type
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_type job_type;
begin
  select t.* into v_type from job_type t where t.type = p_type for no key update;
  if not found then
    perform check_lane(p_type, 5);
    insert into job_type (type) values (p_type) on conflict do nothing;
    select t.* into v_type from job_type t where t.type = p_type for no key update;
  end if;
  return v_type;
end
$$;
comment on function fencepost_private.lock_type_row(text) is 'Locks the row of a type, and makes it first if there is none. Raises JE003.';

-- Writes settings of a type (p_settings) and which are an operator's (p_overridden), if that changes anything: then
-- with an event, and a call to those who wait for it. Returns whether it did. Errors: JE003, naming the setting.
create function fencepost_private.write_settings(p_type fencepost_private.job_type, p_settings jsonb, p_overridden text[], p_source text)
returns boolean
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_now     timestamptz := fencepost_private.now();
  v_new     job_type := jsonb_populate_record(p_type, p_settings);
  v_changed text[];
  v_name    text;
begin
  v_new.overridden := array(select distinct o from unnest(p_overridden) as o order by o);
  v_changed := array(
    select o.key from jsonb_each(to_jsonb(p_type)) as o join jsonb_each(to_jsonb(v_new)) as n on n.key = o.key
    where n.value is distinct from o.value);
  if v_changed = '{}' then
    return false;
  end if;
  begin
    update job_type t
    set max_running = v_new.max_running, max_attempts = v_new.max_attempts, timeout = v_new.timeout,
        backoff_base = v_new.backoff_base, backoff_factor = v_new.backoff_factor, backoff_cap = v_new.backoff_cap, backoff_jitter = v_new.backoff_jitter,
        max_pending = v_new.max_pending, max_payload_bytes = v_new.max_payload_bytes, payload_check = v_new.payload_check,
        accept = v_new.accept, publish_enqueued = v_new.publish_enqueued, publish_started = v_new.publish_started,
        dead_letter_alert = v_new.dead_letter_alert, keep_finished = v_new.keep_finished,
        overridden = v_new.overridden, updated_at = v_now
    where t.type_id = p_type.type_id;
  exception
    when check_violation then
      get stacked diagnostics v_name = constraint_name;
      select a.attname into v_name
      from pg_constraint c join pg_attribute a on a.attrelid = c.conrelid and a.attnum = c.conkey[1]
      where c.conrelid = 'fencepost_private.job_type'::regclass and c.conname = v_name;
      perform raise_error('JE003', format('%s must be %s', v_name, (select s.expects from type_settings() s where s.name = v_name)),
        format('received %s = %s', v_name, to_jsonb(v_new) ->> v_name), 'Nothing was changed. Leave a setting out if it need not be set.');
  end;

  insert into event (xid, at, tenant, kind, actor, data)
  select xid(), v_now, current_tenant(), 'operator.type_configured', actor(),
         jsonb_build_object('type', p_type.type, 'source', p_source,
           'before', jsonb_object_agg(c.name, to_jsonb(p_type) -> c.name), 'after', jsonb_object_agg(c.name, to_jsonb(v_new) -> c.name))
  from unnest(v_changed) as c(name);
  if 'max_running' = any (v_changed) then
    perform wake(array[p_type.type_id]);
  end if;
  return true;
end
$$;
comment on function fencepost_private.write_settings(fencepost_private.job_type, jsonb, text[], text)
  is 'Writes settings of a type if that changes anything, with an event. Raises JE003 naming the setting.';
