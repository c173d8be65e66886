-- What a JSON Schema asserts by way of other schemas, of any value.

-- What a reference leads to: the whole, or what stands in its $defs. Null when it leads elsewhere, or nowhere.
create function fencepost_private.schema_at(p_root jsonb, p_ref text)
returns jsonb
language sql
immutable
set search_path = fencepost_private, pg_temp
as $$
  select case when p_ref = '#' then p_root
              else p_root -> substring(p_ref from '^#/(\$defs|definitions)/') -> replace(replace(substring(p_ref from '^#/[^/]+/([^/]+)$'), '~1', '/'), '~0', '~') end
$$;
comment on function fencepost_private.schema_at(jsonb, text) is 'The schema that a local reference leads to; null when there is none.';

-- anyOf is content with the first that fits; oneOf has to look at all.
create function fencepost_private.misfit_of_choice(p_root jsonb, p_schema jsonb, p_value jsonb, p_place text, p_depth int)
returns text
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
declare
  v_key    text;
  v_schema jsonb;
  v_misfit text;
  v_fit    int;
  v_all    text;
  v_found  text;
begin
  if p_schema ? '$ref' then
    v_found := misfit(p_root, schema_at(p_root, p_schema ->> '$ref'), p_value, p_place, p_depth + 1);
  end if;
  if v_found is null and p_schema ? 'allOf' then
    select m.problem into v_found
    from jsonb_array_elements(p_schema -> 'allOf') as s(schema)
    cross join lateral misfit(p_root, s.schema, p_value, p_place, p_depth + 1) as m(problem)
    where m.problem is not null limit 1;
  end if;
  foreach v_key in array array['anyOf', 'oneOf'] loop
    if v_found is null and p_schema ? v_key then
      v_fit := 0;
      v_all := null;
      for v_schema in select s.schema from jsonb_array_elements(p_schema -> v_key) as s(schema) loop
        v_misfit := misfit(p_root, v_schema, p_value, p_place, p_depth + 1);
        v_fit := v_fit + (v_misfit is null)::int;
        v_all := case when length(v_all) > 2000 then v_all else concat_ws('; or ', v_all, v_misfit) end;
        exit when v_fit = 1 and v_key = 'anyOf';
      end loop;
      v_found := case when v_fit = 0 then clipped(format('%s fits nothing of %s: %s', p_place, v_key, v_all), 2000)
                      when v_fit > 1 and v_key = 'oneOf' then format('%s fits %s schemas of oneOf, and must fit exactly one', p_place, v_fit) end;
    end if;
  end loop;
  if v_found is null and p_schema ? 'not' and misfit(p_root, p_schema -> 'not', p_value, p_place, p_depth + 1) is null then
    v_found := format('%s must not fit %s', p_place, clipped((p_schema -> 'not')::text, 200));
  end if;
  if v_found is null and p_schema ? 'if' then
    v_key := case when misfit(p_root, p_schema -> 'if', p_value, p_place, p_depth + 1) is null then 'then' else 'else' end;
    v_found := misfit(p_root, p_schema -> v_key, p_value, p_place, p_depth + 1);
  end if;
  return v_found;
end
$$;
comment on function fencepost_private.misfit_of_choice(jsonb, jsonb, jsonb, text, int) is 'What a JSON Schema asserts of a value by $ref, allOf, anyOf, oneOf, not and if.';
