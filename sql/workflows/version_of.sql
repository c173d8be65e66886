-- The version of a workflow that has this very definition: what publishing it again would return, without publishing.
-- Who holds a definition starts runs of it whatever was published since. Locks: none.
-- Errors: JE002 (the workflow, or no version with an equal definition).
create function fencepost.version_of(name text, definition jsonb)
returns int
language plpgsql
stable
security definer
set search_path = fencepost_private, pg_temp
as $$
#variable_conflict use_column
declare
  v_latest  record := find_version(version_of.name, null);
  v_version int;
begin
  select v.version into v_version
  from workflow_version v
  where v.workflow_id = v_latest.workflow_id and v.checksum = md5(version_of.definition::text);
  if not found then
    perform raise_error('JE002', format('this definition of workflow %s was never published', quote_literal(version_of.name)),
      format('its latest version is %s, and no version equals the definition', v_latest.version),
      'Publish the definition first, or name the workflow and a version that exists.');
  end if;
  return v_version;
end
$$;
comment on function fencepost.version_of(text, jsonb) is 'The version of a workflow that has an equal definition. Raises JE002.';
