-- Lets a paused type be claimed again, and wakes workers for it. Resuming a type that is not paused changes nothing.
-- Locks: the row of the type. Errors: JE002 when there is no such type.
create function fencepost.resume_type(type text, reason text default null)
returns void
language plpgsql
volatile
security definer
set search_path = fencepost_private, pg_temp
as $$
begin
  perform check_type_exists(resume_type.type);
  perform set_paused(resume_type.type, false, resume_type.reason);
end
$$;
comment on function fencepost.resume_type(text, text) is 'Lets a paused type be claimed again. Raises JE002.';

-- Errors: JE002, with the name that is nearest.
create function fencepost_private.check_type_exists(p_type text)
returns void
language plpgsql
stable
set search_path = fencepost_private, pg_temp
as $$
begin
  if not exists (select from job_type t where t.type = p_type) then
    perform raise_error('JE002', format('type %s does not exist', coalesce(quote_literal(p_type), 'null')), format('received type = %s', coalesce(quote_literal(p_type), 'null')),
      coalesce(did_you_mean(p_type, array(select t.type from job_type t limit 1000)), '') || 'A type exists once something was enqueued under it or it was declared.');
  end if;
end
$$;
comment on function fencepost_private.check_type_exists(text) is 'Raises JE002 for a type that does not exist.';
