-- Whether a value fits a JSON Schema: all that draft 2020-12 asserts, but for `unevaluated…` and for dynamic and remote
-- references, which check_schema refuses. `format` and whatever else describes is for people.
--
-- A misfit is the first way in which a value does not fit, with its place; null when it fits. p_root is the whole schema,
-- for references; p_depth counts how deep we are, so that a schema that leads to itself comes to an end.
create function fencepost_private.misfit(p_root jsonb, p_schema jsonb, p_value jsonb, p_place text, p_depth int)
returns text
language plpgsql
immutable
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
    return format('%s cannot be checked: its schema goes more than 100 levels deep', p_place);
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

create function fencepost_private.schema_problem(p_schema jsonb, p_value jsonb, p_place text)
returns text
language sql
immutable
return fencepost_private.misfit(p_schema, p_schema, p_value, p_place, 0);
comment on function fencepost_private.schema_problem(jsonb, jsonb, text) is 'The first way in which a value does not fit a JSON Schema, with its place; null when it fits.';

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
  if p_schema ? 'type' and not exists (
      select from jsonb_array_elements_text(case jsonb_typeof(p_schema -> 'type') when 'array' then p_schema -> 'type' else jsonb_build_array(p_schema -> 'type') end) as t(name)
      where t.name = v_type or t.name = 'integer' and v_type = 'number' and (p_value #>> '{}')::numeric % 1 = 0) then
    return format('%s must be of type %s, received %s', p_place, p_schema ->> 'type', v_type);
  elsif p_schema ? 'enum' and not exists (select from jsonb_array_elements(p_schema -> 'enum') as e(value) where e.value = p_value) then
    return format('%s must be one of %s, received %s', p_place, p_schema -> 'enum', left(p_value::text, 100));
  elsif p_schema ? 'const' and p_schema -> 'const' <> p_value then
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
