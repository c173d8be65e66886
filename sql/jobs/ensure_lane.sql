-- The lane of a type and priority, made on first use. Types and lanes are never removed, so once found they stay.
-- Locks: none when the lane exists; else the new rows, until commit.
-- Errors: JE003 when the type's name is malformed or the priority out of range.
create function fencepost_private.ensure_lane(p_type text, p_priority int, out lane_id int, out type_id int)
language plpgsql
volatile
set search_path = fencepost_private, pg_temp
as $$
#variable_conflict use_column
begin
  select l.lane_id, l.type_id into lane_id, type_id
  from job_type t join lane l on l.type_id = t.type_id
  where t.type = p_type and l.priority = p_priority and l.flow = 0;
  if found then
    return;
  end if;

  perform check_lane(p_type, p_priority);
  insert into job_type (type) values (p_type) on conflict do nothing;
  select t.type_id into type_id from job_type t where t.type = p_type;
  insert into lane (type_id, priority) values (type_id, p_priority::smallint) on conflict do nothing;
  select l.lane_id into lane_id from lane l where l.type_id = ensure_lane.type_id and l.priority = p_priority and l.flow = 0;
end
$$;
comment on function fencepost_private.ensure_lane(text, int) is 'The lane and type numbers of a type and priority, created on first use. Raises JE003.';

-- Errors: JE003 for a malformed type or a priority out of range.
create function fencepost_private.check_lane(p_type text, p_priority int, p_where text default '')
returns void
language plpgsql
immutable
set search_path = fencepost_private, pg_temp
as $$
begin
  if p_type is null or p_type !~ '^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,199}$' then
    perform raise_error('JE003', p_where || 'the type of a job must be a name such as email.send',
      format('received type = %s', coalesce(quote_literal(left(p_type, 250)), 'null')),
      'Use 1 to 200 letters, digits and any of _ . : / - and start with a letter, digit or underscore.');
  end if;
  if p_priority is null or p_priority not between 0 and 9 then
    perform raise_error('JE003', p_where || 'the priority must be a whole number from 0 to 9',
      format('received priority = %s', coalesce(p_priority::text, 'null')), 'Higher is claimed first; the default is 5.');
  end if;
end
$$;
comment on function fencepost_private.check_lane(text, int, text) is 'Raises JE003 for a malformed type name or a priority out of range.';
