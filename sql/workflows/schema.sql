-- The part of JSON Schema that an input is checked with: type, enum, const, required, properties, additionalProperties,
-- prefixItems, items, minimum, maximum, exclusiveMinimum, exclusiveMaximum, minLength, maxLength, minItems, maxItems,
-- pattern. Other keywords are documentation.
-- Returns the first problem with its place, or null.
create function fencepost_private.schema_problem(p_schema jsonb, p_value jsonb, p_place text)
returns text
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
declare
  v_type  text := jsonb_typeof(p_value);
  v_found text;
begin
  if p_schema is null or p_schema = 'true' then
    return null;
  elsif p_schema = 'false' then
    return format('%s is not allowed', p_place);
  elsif p_schema ? 'type' and not exists (
      select from jsonb_array_elements_text(case jsonb_typeof(p_schema -> 'type') when 'array' then p_schema -> 'type' else jsonb_build_array(p_schema -> 'type') end) as t(name)
      where t.name = v_type or t.name = 'integer' and v_type = 'number' and (p_value #>> '{}')::numeric % 1 = 0) then
    return format('%s must be of type %s, received %s', p_place, p_schema ->> 'type', v_type);
  elsif p_schema ? 'enum' and not exists (select from jsonb_array_elements(p_schema -> 'enum') as e(value) where e.value = p_value) then
    return format('%s must be one of %s, received %s', p_place, p_schema -> 'enum', left(p_value::text, 100));
  elsif p_schema ? 'const' and p_schema -> 'const' <> p_value then
    return format('%s must be %s, received %s', p_place, p_schema -> 'const', left(p_value::text, 100));
  end if;
  if v_type = 'number' and ((p_value #>> '{}')::numeric < (p_schema ->> 'minimum')::numeric or (p_value #>> '{}')::numeric > (p_schema ->> 'maximum')::numeric) then
    return format('%s must be from %s to %s, received %s', p_place, coalesce(p_schema ->> 'minimum', 'any'), coalesce(p_schema ->> 'maximum', 'any'), p_value);
  elsif v_type = 'number' and ((p_value #>> '{}')::numeric <= (p_schema ->> 'exclusiveMinimum')::numeric or (p_value #>> '{}')::numeric >= (p_schema ->> 'exclusiveMaximum')::numeric) then
    return format('%s must be between %s and %s, and neither of them, received %s', p_place, coalesce(p_schema ->> 'exclusiveMinimum', 'any'), coalesce(p_schema ->> 'exclusiveMaximum', 'any'), p_value);
  elsif v_type = 'string' and (length(p_value #>> '{}') < (p_schema ->> 'minLength')::numeric or length(p_value #>> '{}') > (p_schema ->> 'maxLength')::numeric) then
    return format('%s has %s characters, outside %s to %s', p_place, length(p_value #>> '{}'), coalesce(p_schema ->> 'minLength', '0'), coalesce(p_schema ->> 'maxLength', 'any'));
  elsif v_type = 'string' and p_schema ? 'pattern' and (p_value #>> '{}') !~ (p_schema ->> 'pattern') then
    return format('%s must match %s', p_place, p_schema ->> 'pattern');
  elsif v_type = 'array' then
    if jsonb_array_length(p_value) < (p_schema ->> 'minItems')::numeric or jsonb_array_length(p_value) > (p_schema ->> 'maxItems')::numeric then
      return format('%s has %s items, outside %s to %s', p_place, jsonb_array_length(p_value), coalesce(p_schema ->> 'minItems', '0'), coalesce(p_schema ->> 'maxItems', 'any'));
    end if;
    select s.problem into v_found
    from jsonb_array_elements(p_value) with ordinality as e(value, place)
    cross join lateral schema_problem(coalesce(p_schema -> 'prefixItems' -> (e.place::int - 1), p_schema -> 'items'), e.value, format('%s[%s]', p_place, e.place - 1)) as s(problem)
    where s.problem is not null limit 1;
    return v_found;
  elsif v_type = 'object' then
    select format('%s.%s is required', p_place, k) into v_found
    from jsonb_array_elements_text(coalesce(p_schema -> 'required', '[]')) as k where not p_value ? k limit 1;
    if v_found is null then
      select s.problem into v_found
      from jsonb_each(p_value) as e(key, value)
      cross join lateral schema_problem(coalesce(p_schema -> 'properties' -> e.key, p_schema -> 'additionalProperties'), e.value, format('%s.%s', p_place, e.key)) as s(problem)
      where s.problem is not null limit 1;
    end if;
    return v_found;
  end if;
  return null;
end
$$;
comment on function fencepost_private.schema_problem(jsonb, jsonb, text) is 'The first way in which a value does not fit a JSON Schema, with its place; null when it fits.';

-- Whether a schema is one, as far as the keywords go that are looked at: otherwise the first input would find out.
-- Errors: JE008.
create function fencepost_private.check_schema(p_schema jsonb, p_place text)
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
declare
  v       record;
  v_types constant jsonb := '["object", "array", "string", "number", "integer", "boolean", "null"]'::jsonb;
begin
  if p_schema is null or jsonb_typeof(p_schema) = 'boolean' then
    return;
  elsif jsonb_typeof(p_schema) <> 'object' then
    perform raise_error('JE008', 'a JSON Schema is an object or a boolean', format('at %s: received %s', p_place, left(p_schema::text, 200)), 'For example {"type": "string"}.');
  end if;
  for v in
    select k.key, k.value, jsonb_typeof(k.value) as is_a,
           case
             when k.key = 'type' then 'the name of a type, or an array of them: ' || v_types::text
             when k.key = 'enum' then 'an array'
             when k.key = 'required' then 'an array of names'
             when k.key = 'properties' then 'an object of schemas'
             when k.key = 'prefixItems' then 'an array of schemas'
             when k.key in ('minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum') then 'a number'
             when k.key in ('minLength', 'maxLength', 'minItems', 'maxItems') then 'a whole number from 0 to 1000000000'
             when k.key = 'pattern' then 'a regular expression'
           end as must_be
    from jsonb_each(p_schema) as k
  loop
    if (case
         when v.key = 'type' then not case v.is_a when 'array' then v.value <@ v_types and v.value <> '[]' when 'string' then v_types @> v.value else false end
         when v.key = 'enum' then v.is_a <> 'array'
         when v.key = 'required' then v.is_a <> 'array' or v.value @? '$[*] ? (@.type() <> "string")'
         when v.key = 'properties' then v.is_a <> 'object'
         when v.key = 'prefixItems' then v.is_a <> 'array'
         when v.key in ('minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum') then v.is_a <> 'number'
         when v.key in ('minLength', 'maxLength', 'minItems', 'maxItems') then v.is_a <> 'number' or not v.value @? '$ ? (@ >= 0 && @ <= 1000000000 && @.floor() == @)'
         when v.key = 'pattern' then v.is_a <> 'string' or not is_pattern(v.value #>> '{}')
         else false
       end) then
      perform raise_error('JE008', format('%s of a JSON Schema must be %s', v.key, v.must_be), format('at %s.%s: received %s', p_place, v.key, left(v.value::text, 200)), 'See json-schema.org.');
    end if;
    if v.key = 'properties' then
      perform check_schema(e.value, format('%s.properties.%s', p_place, e.key)) from jsonb_each(v.value) as e;
    elsif v.key = 'prefixItems' then
      perform check_schema(e.value, format('%s.prefixItems[%s]', p_place, e.place - 1)) from jsonb_array_elements(v.value) with ordinality as e(value, place);
    elsif v.key in ('items', 'additionalProperties') then
      perform check_schema(v.value, format('%s.%s', p_place, v.key));
    end if;
  end loop;
end
$$;
comment on function fencepost_private.check_schema(jsonb, text) is 'Raises JE008 for the first keyword of a JSON Schema that has no meaning.';

create function fencepost_private.is_pattern(p_text text)
returns boolean
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
begin
  return '' ~ p_text is not null;
exception when data_exception then
  return false;
end
$$;
comment on function fencepost_private.is_pattern(text) is 'Whether a text is a regular expression.';
