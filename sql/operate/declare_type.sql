-- Code declares a type and all its settings, by the names of configure_type: a worker does when it starts. What is
-- left out has its default; what an operator has set stays his. Declaring the same again changes and locks nothing.
-- The type and its line of default priority then exist, so that no enqueue has to make them in a long transaction, for which
-- all others of that type and priority would wait. Another priority is made by the first job that has it.
-- Returns whether a setting changed. Locks: the row of the type, when the declaration is new.
-- Errors: JE003, naming the setting.
create function fencepost.declare_type(type text, settings jsonb default '{}')
returns boolean
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
declare
  v_declared jsonb;
  v_type     job_type;
begin
  v_declared := checked_settings(coalesce(declare_type.settings, '{}'));
  if exists (select from job_type t join type_declaration d on d.type_id = t.type_id
             where t.type = declare_type.type and d.settings = v_declared) then
    return false;
  end if;

  v_type := lock_type_row(declare_type.type);
  perform ensure_lane(declare_type.type, 5);
  insert into type_declaration as d (type_id, settings, declared_at, declared_by)
  values (v_type.type_id, v_declared, fencepost_private.now(), actor())
  on conflict (type_id) do update set settings = excluded.settings, declared_at = excluded.declared_at, declared_by = excluded.declared_by;
  return write_settings(v_type, (default_settings() || v_declared) - v_type.overridden, v_type.overridden, 'code');
end
$$;
comment on function fencepost.declare_type(text, jsonb) is 'Declares a type and its settings from code; what an operator has set stays. Returns whether a setting changed. Raises JE003.';
