-- Whether a schema is one: otherwise the first input would find out. What is asserted but not looked at here is refused,
-- so that nobody relies on it; keywords that nobody knows describe, and are left alone.

-- What each keyword must be.
create function fencepost_private.schema_keywords()
returns table (keyword text, must_be text)
language sql
immutable
set search_path = fencepost_private, pg_temp
as $$
  select k.keyword, w.must_be
  from (values
    ('the name of a type, or an array of them: object, array, string, number, integer, boolean, null', '{type}'::text[]),
    ('an array', '{enum}'),
    ('an array of names', '{required}'),
    ('an object of arrays of names', '{dependentRequired}'),
    ('a schema', '{items,contains,additionalProperties,propertyNames,not,if,then,else}'),
    ('an array of schemas, and not empty', '{prefixItems,allOf,anyOf,oneOf}'),
    ('an object of schemas', '{properties,dependentSchemas,$defs,definitions}'),
    ('an object of schemas by regular expressions', '{patternProperties}'),
    ('a number', '{minimum,maximum,exclusiveMinimum,exclusiveMaximum}'),
    ('a number above 0', '{multipleOf}'),
    ('a whole number from 0 to 1000000000', '{minLength,maxLength,minItems,maxItems,minContains,maxContains,minProperties,maxProperties}'),
    ('true or false', '{uniqueItems}'),
    ('a regular expression', '{pattern}'),
    ('# or #/$defs/<name>, and lead to a schema', '{$ref}'),
    ('left out: it is not supported', '{$dynamicRef,$recursiveRef,unevaluatedProperties,unevaluatedItems,dependencies,additionalItems}')
  ) as w(must_be, keywords)
  cross join unnest(w.keywords) as k(keyword)
$$;
comment on function fencepost_private.schema_keywords() is 'The keywords of a JSON Schema that are looked at, and what each must be.';

-- Errors: JE008, naming the place.
create function fencepost_private.check_schema(p_schema jsonb, p_place text)
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
declare
  v_ref text;
begin
  perform check_schema_part(p_schema, p_schema, p_place, 0);
  v_ref := endless_ref(p_schema);
  if v_ref is not null then
    perform raise_error('JE008', 'a JSON Schema must not lead back to itself at the same place', format('at %s: received {"$ref": %s}', p_place, to_json(v_ref)),
      'A reference may lead back from within properties, items or contains, not through $ref, allOf, anyOf, oneOf, not, if or dependentSchemas alone.');
  end if;
end
$$;
comment on function fencepost_private.check_schema(jsonb, text) is 'Raises JE008 for a JSON Schema that has no meaning, that would not be looked at whole, or that would never come to an end.';

create function fencepost_private.check_schema_part(p_root jsonb, p_schema jsonb, p_place text, p_depth int)
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
  elsif p_depth > 100 then
    perform raise_error('JE008', 'a JSON Schema may be nested at most 100 deep', format('at %s: received %s', p_place, left(p_schema::text, 200)), 'Nest it less.');
  elsif p_depth > 0 and p_schema ? '$id' then
    perform raise_error('JE008', '$id of a JSON Schema belongs to the whole', format('at %s.$id: received %s', p_place, left(p_schema ->> '$id', 200)),
      'Leave it out: references are read from the whole schema.');
  end if;
  for v in
    select k.key, k.value, jsonb_typeof(k.value) as is_a, w.must_be from jsonb_each(p_schema) as k join schema_keywords() as w on w.keyword = k.key
  loop
    if not (case v.must_be
         when 'an array' then v.is_a = 'array'
         when 'an array of names' then is_names(v.value)
         when 'an object of arrays of names' then v.is_a = 'object' and not exists (select from jsonb_each(v.value) as e where not is_names(e.value))
         when 'a schema' then true
         when 'an array of schemas, and not empty' then v.is_a = 'array' and v.value <> '[]'
         when 'an object of schemas' then v.is_a = 'object'
         when 'an object of schemas by regular expressions' then v.is_a = 'object' and not exists (select from jsonb_object_keys(v.value) as k where not is_pattern(k))
         when 'a number' then v.is_a = 'number'
         when 'a number above 0' then v.is_a = 'number' and v.value > '0'
         when 'a whole number from 0 to 1000000000' then v.is_a = 'number' and v.value @? '$ ? (@ >= 0 && @ <= 1000000000 && @.floor() == @)'
         when 'true or false' then v.is_a = 'boolean'
         when 'a regular expression' then v.is_a = 'string' and is_pattern(v.value #>> '{}')
         when '# or #/$defs/<name>, and lead to a schema' then v.is_a = 'string' and coalesce(jsonb_typeof(schema_at(p_root, v.value #>> '{}')) in ('object', 'boolean'), false)
         when 'left out: it is not supported' then false
         else case v.is_a when 'array' then v.value <@ v_types and v.value <> '[]' when 'string' then v_types @> v.value else false end
       end) then
      perform raise_error('JE008', format('%s of a JSON Schema must be %s', v.key, v.must_be), format('at %s.%s: received %s', p_place, v.key, left(v.value::text, 200)),
        case when v.must_be like 'left out%' then 'Say the same with other keywords, or leave it to the task that reads the input.' else 'See json-schema.org.' end);
    end if;
    perform check_schema_part(p_root, s.schema, s.place, p_depth + 1)
    from (
      select v.value as schema, format('%s.%s', p_place, v.key) as place where v.must_be = 'a schema'
      union all
      select e.value, format('%s.%s[%s]', p_place, v.key, e.place - 1)
      from jsonb_array_elements(case when v.must_be like 'an array of schemas%' then v.value end) with ordinality as e(value, place)
      union all
      select e.value, format('%s.%s.%s', p_place, v.key, e.key)
      from jsonb_each(case when v.must_be like 'an object of schemas%' then v.value end) as e
    ) as s;
  end loop;
end
$$;
comment on function fencepost_private.check_schema_part(jsonb, jsonb, text, int) is 'Raises JE008 for the first keyword of a part of a JSON Schema that has no meaning, or that is not looked at.';

-- A reference that is followed more than 100 times without a step into the value, so in a circle or as good as. Only the
-- whole and what stands in its $defs can be referred to: these are the nodes, and the references in them the edges.
create function fencepost_private.endless_ref(p_root jsonb)
returns text
language sql
immutable
set search_path = fencepost_private, pg_temp
as $$
  with recursive node as (
    select '#' as ref, p_root as schema
    union all
    select format('#/%s/%s', d.keyword, replace(replace(e.key, '~', '~0'), '/', '~1')), e.value
    from unnest(array['$defs', 'definitions']) as d(keyword) cross join jsonb_each(p_root -> d.keyword) as e
  ), part as (
    select n.ref, n.schema from node n
    union all
    select p.ref, s.schema
    from part p
    cross join lateral (
      select p.schema -> k.keyword as schema from unnest(array['not', 'if', 'then', 'else']) as k(keyword)
      union all
      select e.schema from unnest(array['allOf', 'anyOf', 'oneOf']) as k(keyword) cross join jsonb_array_elements(p.schema -> k.keyword) as e(schema)
      union all
      select e.value from jsonb_each(p.schema -> 'dependentSchemas') as e
    ) as s
    where jsonb_typeof(s.schema) = 'object'
  ), edge as materialized (
    select distinct p.ref, p.schema ->> '$ref' as leads_to from part p where p.schema ? '$ref'
  ), walk as (
    select e.leads_to as ref, 1 as steps from edge e
    union
    select e.leads_to, w.steps + 1 from walk w join edge e on e.ref = w.ref where w.steps <= 100
  )
  select w.ref from walk w where w.steps > 100 order by w.ref limit 1
$$;
comment on function fencepost_private.endless_ref(jsonb) is 'A reference of a JSON Schema that leads back to itself at the same place of a value; null when there is none.';

create function fencepost_private.is_names(p_value jsonb)
returns boolean
language sql
immutable
return jsonb_typeof(p_value) = 'array' and not p_value @? '$[*] ? (@.type() <> "string")';
comment on function fencepost_private.is_names(jsonb) is 'Whether a JSON value is an array of texts.';

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
