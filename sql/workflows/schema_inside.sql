-- What a JSON Schema asserts of what is inside arrays and objects.

-- items are those that prefixItems left over; contains counts those that fit.
create function fencepost_private.misfit_of_array(p_root jsonb, p_schema jsonb, p_value jsonb, p_place text, p_depth int)
returns text
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_length int := jsonb_array_length(p_value);
  v_fixed  int := coalesce(jsonb_array_length(p_schema -> 'prefixItems'), 0);
  v_fit    int;
  v_found  text;
begin
  if v_length < (p_schema ->> 'minItems')::numeric or v_length > (p_schema ->> 'maxItems')::numeric then
    return format('%s has %s items, outside %s to %s', p_place, v_length, coalesce(p_schema ->> 'minItems', '0'), coalesce(p_schema ->> 'maxItems', 'any'));
  elsif p_schema -> 'uniqueItems' = 'true' and v_length <> (select count(distinct e) from jsonb_array_elements(p_value) as e) then
    return format('%s has an item twice', p_place);
  end if;
  if v_fixed > 0 or p_schema ? 'items' then
    select m.problem into v_found
    from jsonb_array_elements(p_value) with ordinality as e(value, place)
    cross join lateral misfit(p_root, case when e.place <= v_fixed then p_schema -> 'prefixItems' -> (e.place::int - 1) else p_schema -> 'items' end,
                              e.value, format('%s[%s]', p_place, e.place - 1), p_depth + 1) as m(problem)
    where m.problem is not null limit 1;
  end if;
  if v_found is null and p_schema ? 'contains' then
    select count(*) into v_fit from jsonb_array_elements(p_value) as e(value) where misfit(p_root, p_schema -> 'contains', e.value, p_place, p_depth + 1) is null;
    if v_fit < coalesce((p_schema ->> 'minContains')::numeric, 1) or v_fit > (p_schema ->> 'maxContains')::numeric then
      v_found := format('%s has %s items that fit contains, outside %s to %s', p_place, v_fit, coalesce(p_schema ->> 'minContains', '1'), coalesce(p_schema ->> 'maxContains', 'any'));
    end if;
  end if;
  return v_found;
end
$$;
comment on function fencepost_private.misfit_of_array(jsonb, jsonb, jsonb, text, int) is 'What a JSON Schema asserts of an array.';

-- additionalProperties are those that properties does not name and no pattern matches. Properties that tell alternatives
-- apart, by const or enum, come first: they refuse at once what would be looked at in depth otherwise.
create function fencepost_private.misfit_of_object(p_root jsonb, p_schema jsonb, p_value jsonb, p_place text, p_depth int)
returns text
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_size  int;
  v_found text;
begin
  if p_schema ?| array['minProperties', 'maxProperties'] then
    v_size := (select count(*) from jsonb_object_keys(p_value));
    if v_size < (p_schema ->> 'minProperties')::numeric or v_size > (p_schema ->> 'maxProperties')::numeric then
      return format('%s has %s keys, outside %s to %s', p_place, v_size, coalesce(p_schema ->> 'minProperties', '0'), coalesce(p_schema ->> 'maxProperties', 'any'));
    end if;
  end if;
  if p_schema ?| array['required', 'dependentRequired'] then
    select format('%s.%s is required%s', p_place, r.name, ' because of ' || r.because) into v_found
    from (
      select k.name, null as because from jsonb_array_elements_text(p_schema -> 'required') as k(name)
      union all
      select k.name, d.key from jsonb_each(p_schema -> 'dependentRequired') as d(key, names) cross join jsonb_array_elements_text(d.names) as k(name) where p_value ? d.key
    ) as r
    where not p_value ? r.name limit 1;
  end if;
  if v_found is null and p_schema ?| array['properties', 'patternProperties', 'additionalProperties', 'propertyNames'] then
    select m.problem into v_found
    from (
      select e.key, e.value from jsonb_each(p_value) as e
      order by coalesce(p_schema -> 'properties' -> e.key ?| array['const', 'enum'], false) desc offset 0
    ) as e
    cross join lateral (
      select p_schema -> 'properties' -> e.key as schema, e.value, format('%s.%s', p_place, e.key) as place
      union all
      select p.schema, e.value, format('%s.%s', p_place, e.key) from jsonb_each(p_schema -> 'patternProperties') as p(pattern, schema) where e.key ~ p.pattern
      union all
      select p_schema -> 'additionalProperties', e.value, format('%s.%s', p_place, e.key)
      where not coalesce(p_schema -> 'properties' ? e.key, false) and not exists (select from jsonb_object_keys(p_schema -> 'patternProperties') as p(pattern) where e.key ~ p.pattern)
      union all
      select p_schema -> 'propertyNames', to_jsonb(e.key), format('the key %s of %s', quote_literal(e.key), p_place)
    ) as s
    cross join lateral misfit(p_root, s.schema, s.value, s.place, p_depth + 1) as m(problem)
    where s.schema is not null and m.problem is not null limit 1;
  end if;
  if v_found is null and p_schema ? 'dependentSchemas' then
    select m.problem into v_found
    from jsonb_each(p_schema -> 'dependentSchemas') as d(key, schema)
    cross join lateral misfit(p_root, d.schema, p_value, p_place, p_depth + 1) as m(problem)
    where p_value ? d.key and m.problem is not null limit 1;
  end if;
  return v_found;
end
$$;
comment on function fencepost_private.misfit_of_object(jsonb, jsonb, jsonb, text, int) is 'What a JSON Schema asserts of an object.';
