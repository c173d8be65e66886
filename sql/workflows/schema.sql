-- Whether a value fits a JSON Schema: all that draft 2020-12 asserts, but for `unevaluated…` and for dynamic and remote
-- references, which check_schema refuses. `format` and whatever else describes is for people.
--
-- A misfit is the first way in which a value does not fit, with its place; null when it fits. p_root is the whole schema,
-- for references; p_depth counts how deep we are. What goes too deep or takes too long is no misfit, which `not` would
-- turn into a fit, but raises. The checks that are left are counted down in a setting: alternatives inside alternatives
-- multiply, and who moves a run must not wait for that.
create function fencepost_private.misfit(p_root jsonb, p_schema jsonb, p_value jsonb, p_place text, p_depth int)
returns text
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_found text;
begin
  if p_schema is null or p_schema in ('true', '{}') then
    return null;
  elsif p_schema = 'false' then
    return format('%s is not allowed', p_place);
  elsif p_depth > 100 then
    perform raise_error('JE003', 'the input cannot be checked: its schema goes more than 100 levels deep', format('at %s', left(p_place, 500)), 'Nest it less.');
  elsif set_config('fencepost.checks_left', (current_setting('fencepost.checks_left')::int - 1)::text, true) = '-1' then
    perform raise_error('JE003', 'the input takes too long to check against its schema', format('at %s', left(p_place, 500)),
      'Tell the alternatives of anyOf and oneOf apart by a property with const.');
  end if;
  v_found := misfit_of_value(p_schema, p_value, p_place);
  if v_found is null and jsonb_typeof(p_value) = 'array' then
    v_found := misfit_of_array(p_root, p_schema, p_value, p_place, p_depth);
  elsif v_found is null and jsonb_typeof(p_value) = 'object' then
    v_found := misfit_of_object(p_root, p_schema, p_value, p_place, p_depth);
  end if;
  if v_found is null and p_schema ?| array['$ref', 'allOf', 'anyOf', 'oneOf', 'not', 'if'] then
    v_found := misfit_of_choice(p_root, p_schema, p_value, p_place, p_depth);
  end if;
  return v_found;
end
$$;
comment on function fencepost_private.misfit(jsonb, jsonb, jsonb, text, int) is 'The first way in which a value does not fit a part of a JSON Schema, with its place; null when it fits.';

-- There may be 50,000 checks, and one more for every two bytes of the value: what is long may take longer.
-- Errors: JE003 when it cannot be checked.
create function fencepost_private.schema_problem(p_schema jsonb, p_value jsonb, p_place text)
returns text
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
begin
  if p_schema is null then
    return null;
  end if;
  perform set_config('fencepost.checks_left', (50000 + octet_length(p_value::text) / 2)::text, true);
  return misfit(p_schema, p_schema, p_value, p_place, 0);
exception when data_exception or program_limit_exceeded then   -- a regular expression or the stack gave up
  perform raise_error('JE003', 'the input cannot be checked against its schema', sqlerrm, 'Simplify the schema.');
  return null;
end
$$;
comment on function fencepost_private.schema_problem(jsonb, jsonb, text) is 'The first way in which a value does not fit a JSON Schema, with its place; null when it fits. Raises JE003 when that cannot be found out.';

-- What is asserted of any value, of numbers and of texts.
create function fencepost_private.misfit_of_value(p_schema jsonb, p_value jsonb, p_place text)
returns text
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
declare
  v_type   text := jsonb_typeof(p_value);
  v_number numeric;
  v_length int;
begin
  -- jsonb ? asks for a text, or for an element of an array
  if p_schema ? 'type' and not (p_schema -> 'type' ? v_type or v_type = 'number' and p_schema -> 'type' ? 'integer' and (p_value #>> '{}')::numeric % 1 = 0) then
    return format('%s must be of type %s, received %s', p_place, p_schema ->> 'type', v_type);
  elsif p_schema ? 'enum' then
    if not exists (select from jsonb_array_elements(p_schema -> 'enum') as e(value) where e.value = p_value) then
      return format('%s must be one of %s, received %s', p_place, p_schema -> 'enum', left(p_value::text, 100));
    end if;
  end if;
  if p_schema ? 'const' and p_schema -> 'const' <> p_value then
    return format('%s must be %s, received %s', p_place, p_schema -> 'const', left(p_value::text, 100));
  end if;
  if v_type = 'number' then
    v_number := (p_value #>> '{}')::numeric;
    if v_number < (p_schema ->> 'minimum')::numeric or v_number > (p_schema ->> 'maximum')::numeric then
      return format('%s must be from %s to %s, received %s', p_place, coalesce(p_schema ->> 'minimum', 'any'), coalesce(p_schema ->> 'maximum', 'any'), p_value);
    elsif v_number <= (p_schema ->> 'exclusiveMinimum')::numeric or v_number >= (p_schema ->> 'exclusiveMaximum')::numeric then
      return format('%s must be between %s and %s, and neither of them, received %s', p_place, coalesce(p_schema ->> 'exclusiveMinimum', 'any'), coalesce(p_schema ->> 'exclusiveMaximum', 'any'), p_value);
    elsif v_number % (p_schema ->> 'multipleOf')::numeric <> 0 then
      return format('%s must be a multiple of %s, received %s', p_place, p_schema ->> 'multipleOf', p_value);
    end if;
  elsif v_type = 'string' then
    v_length := length(p_value #>> '{}');
    if v_length < (p_schema ->> 'minLength')::numeric or v_length > (p_schema ->> 'maxLength')::numeric then
      return format('%s has %s characters, outside %s to %s', p_place, v_length, coalesce(p_schema ->> 'minLength', '0'), coalesce(p_schema ->> 'maxLength', 'any'));
    elsif (p_value #>> '{}') !~ (p_schema ->> 'pattern') then
      return format('%s must match %s', p_place, p_schema ->> 'pattern');
    end if;
  end if;
  return null;
end
$$;
comment on function fencepost_private.misfit_of_value(jsonb, jsonb, text) is 'What a JSON Schema asserts of any value, of numbers and of texts.';
